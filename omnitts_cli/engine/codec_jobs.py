"""CodecJobs: which frames of whom the codec works on, and the sound that has come back."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from omnitts_cli.devices.device import Fetch, Stream
from omnitts_cli.engine import chunker
from omnitts_cli.engine.capture import Bench, SoundSteps
from omnitts_cli.engine.slots import Slot, Stop

MOST = 4
"""Jobs under way at once; more would only queue, and an urgent one must not wait long."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """Frames of one slot from `start` on, as sound. The arrays are parts of a job's own."""

    slot: Slot
    start: int
    sound: np.ndarray  # [T * samples per frame] float32
    codes: np.ndarray  # [T, G] int64


@dataclass(frozen=True, eq=False)
class Job:
    """A run of the codec under way."""

    fetch: Fetch
    rows: list[tuple[Slot, int]]  # first frame of each

    @property
    def awaited(self) -> bool:
        """Somebody's first sound is in it, which is worth waiting for: the next frame is under way already."""
        return any(slot.first_sound is None and start >= slot.reference for slot, start in self.rows)


class CodecJobs:
    """Chunks go to the codec in a stream of its own, behind the frames that they are made of."""

    def __init__(self, bench: Bench, frame_stream: Stream) -> None:
        self._facts, self._plan, self._frame_stream = bench.model.facts, bench.plan, frame_stream
        self._stream = bench.device.stream()
        self._steps = SoundSteps(bench, self._stream)
        self._jobs: deque[Job] = deque()

    @property
    def under_way(self) -> bool:
        return bool(self._jobs)

    def clear(self, slots: Sequence[int]) -> None:
        """New requests begin in `slots`."""
        self._steps.clear(slots)

    def launch(self, slots: Iterable[Slot]) -> bool:
        """Decode what is due, as far as there is room; says whether anything was launched."""
        if len(self._jobs) >= MOST:
            return False
        now, launched = time.perf_counter(), False
        dues = [one for slot in slots if (one := self._due(slot, now)) is not None]
        for batch in chunker.together(dues, self._steps.most_rows, self._plan.sound_frames):
            if len(self._jobs) >= MOST:
                break
            frames, rows = batch[0].frames, [(one.slot, one.slot.decoding) for one in batch]
            if any(slot.unreported(start + frames) for slot, start in rows):
                self._stream.wait_event(self._frame_stream.record_event())
            fetch = self._steps.launch(frames, [slot.index for slot, _ in rows], [start for _, start in rows])
            self._jobs.append(Job(fetch, rows))
            for slot, _ in rows:
                slot.decoding += frames
                slot.jobs += 1
            launched = True
        return launched

    def _due(self, slot: Slot, now: float) -> chunker.Due | None:
        if slot.silent:
            return None
        facts, plan = self._facts, self._plan
        # the end code cannot come sooner, so these frames are certain before they are reported
        made = max(slot.made, min(slot.launched, facts.least_frames)) if slot.stop is Stop.RUNNING else slot.made
        frame_s = 1 / facts.frame_rate
        heard = slot.delivered - slot.reference
        lead_s = 0.0 if slot.first_sound is None else heard * frame_s - (now - slot.first_sound)
        return chunker.due(slot, slot.reference + made, lead_s, plan.chunks, plan.first_chunk, frame_s)

    def collect(self, wait: bool) -> Iterator[Decoded]:
        """What has come back, and with `wait` at least one job's."""
        while self._jobs and (wait or self._jobs[0].awaited or self._jobs[0].fetch.done()):
            wait = False  # one result is enough to go on with
            job = self._jobs.popleft()
            sound, codes = job.fetch.wait()
            for row, (slot, start) in enumerate(job.rows):
                slot.jobs -= 1
                yield Decoded(slot, start, sound[row], codes[row])
