"""CodecJobs: which frames are being decoded, and the sound that has come back."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from omnitts_cli.devices.device import Fetch, Stream
from omnitts_cli.engine import chunker
from omnitts_cli.engine.capture import SoundSteps, StepContext
from omnitts_cli.engine.record import Record, State

MOST = 4
"""Jobs in flight at once; more would only queue up, and an urgent one must not wait long."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """Frames of one request from `start` on, as sound. The arrays are views of a job's."""

    record: Record
    start: int
    sound: np.ndarray  # [T * samples per frame] float32
    codes: np.ndarray  # [T, G] int64


@dataclass(frozen=True, eq=False)
class CodecJob:
    """A run of the codec in flight."""

    fetch: Fetch
    rows: list[tuple[Record, int]]  # first frame of each

    @property
    def awaited(self) -> bool:
        """It holds a request's first sound, which is worth waiting for: the next frame has been launched already."""
        return any(record.first_sound is None and start >= record.reference for record, start in self.rows)


class CodecJobs:
    """Decodes chunks in a stream of its own, after the frames that they are made of."""

    def __init__(self, context: StepContext, frame_stream: Stream) -> None:
        self._facts, self._plan, self._frame_stream = context.model.facts, context.plan, frame_stream
        self._stream = context.device.stream()
        self._steps = SoundSteps(context, self._stream)
        self._jobs: deque[CodecJob] = deque()
        self._frame_s = 1 / self._facts.frame_rate

    @property
    def in_flight(self) -> int:
        """Jobs whose sound has not been collected."""
        return len(self._jobs)

    def clear(self, slots: Sequence[int]) -> None:
        """New requests begin in `slots`."""
        self._steps.clear(slots)

    def launch(self, records: Iterable[Record]) -> bool:
        """Decode what is due, as far as there is room; returns whether anything was launched."""
        if len(self._jobs) >= MOST:
            return False
        now, launched = time.perf_counter(), False
        dues = [one for record in records if (one := self._due(record, now)) is not None]
        for batch in chunker.together(dues, self._steps.most_rows, self._plan.sound_frames):
            if len(self._jobs) >= MOST:
                break
            frames, rows = batch[0].frames, [(one.record, one.record.decoding) for one in batch]
            if any(record.unreported(start + frames) for record, start in rows):
                self._stream.wait_event(self._frame_stream.record_event())
            fetch = self._steps.launch(frames, [record.slot for record, _ in rows], [start for _, start in rows])
            self._jobs.append(CodecJob(fetch, rows))
            for record, _ in rows:
                record.decoding += frames
                record.jobs += 1
            launched = True
        return launched

    def _due(self, record: Record, now: float) -> chunker.Due | None:
        if record.silent:
            return None
        plan, made, least, frame_s = self._plan, record.made, self._facts.least_frames, self._frame_s
        if made < least and record.state is State.RUNNING:
            # the end code cannot come sooner, so these frames are certain before they are reported
            made = max(made, min(record.launched, least))
        available = record.reference + made
        if available <= record.decoding:
            return None
        played = record.delivered - record.reference
        lead_s = 0.0 if record.first_sound is None else played * frame_s - (now - record.first_sound)
        return chunker.due(record, available, lead_s, plan.chunks, plan.first_chunk, frame_s)

    def collect(self, wait: bool) -> Iterator[Decoded]:
        """What has come back, and with `wait` at least one job's."""
        while self._jobs and (wait or self._jobs[0].awaited or self._jobs[0].fetch.done()):
            wait = False  # one result is enough to go on with
            job = self._jobs.popleft()
            sound, codes = job.fetch.wait()
            for row, (record, start) in enumerate(job.rows):
                record.jobs -= 1
                yield Decoded(record, start, sound[row], codes[row])
