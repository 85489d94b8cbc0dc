"""CodecJobs: which frames go to the codec, when and how many together, and the sound that comes back.

The first chunk is small so that sound starts at once; later ones grow with the lead of the playback, because large
chunks cost less per frame. The sound does not depend on these sizes.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.devices.device import Fetch, Stream
from omnitts_cli.engine.frame import Replay, StepContext, fitting
from omnitts_cli.engine.slots import Record, State
from omnitts_cli.models.slot_decoder import slot_decoder

LEAST_LEAD_S = 0.25
"""A player with less sound than this is served first."""
PATIENCE = 2
"""A chunk may wait for those of other requests, as one large call of the codec costs less than two: for up to this
share (1 / PATIENCE) of the turns in which its frames were made. Its player has sound for twice those turns.
"""


@dataclass(frozen=True)
class Due:
    """Frames of one request that should be decoded now. A lower urgency comes first."""

    record: Record
    frames: int
    urgency: float
    padding: int = 0  # frames that the step decodes after these; their sound is dropped
    patience: int = 0  # turns that these frames may wait for those of other requests

    @property
    def size(self) -> int:
        """Frames of the step."""
        return self.frames + self.padding


def largest(sizes: Sequence[int], most: int) -> int:
    """The largest of `sizes` that is at most `most`; 0 if there is none."""
    return sizes[bisect_right(sizes, most) - 1] if most >= sizes[0] else 0


def due(
    record: Record,
    available: int,
    lead_s: float,
    sizes: Sequence[int],
    first: int,
    frame_s: float,
    *,
    fixed: bool = False,
    room: int = 0,
) -> Due | None:
    """What to decode of a request that has `available` frames (reference included) and gains one every `frame_s`.

    `fixed`: as much as fits at once, whatever the time, so that the cuts are the same in every run.
    `room`: frames of the slot that a step may still read. The end of a request takes one padded step where it fits.
    """
    pending = available - record.decoding
    dropped = record.reference - record.decoding
    if dropped > 0:  # the reference's sound is dropped, but the codec needs its frames as history
        return Due(record, largest(sizes, min(pending, dropped)), -1.0)
    if pending <= 0:
        return None
    starved = record.starved and record.turns is None  # the tokens of an answer follow soon
    nothing_follows = record.state is State.FINISHING or starved or record.paused
    if record.first_sound is None and record.decoding == record.reference:
        if pending < first and not nothing_follows:
            return None
        return Due(record, largest(sizes, min(pending, first)), 0.0)
    if fixed:
        full = pending >= sizes[-1] or nothing_follows
        return Due(record, largest(sizes, pending), 0.0) if full else None
    if record.state is State.FINISHING:  # done, it frees its slot, so it goes before those with a lead
        urgency = min(lead_s, LEAST_LEAD_S)
        if record.first_sound is not None and pending <= sizes[-1] and (size := fitting(sizes, pending)) <= room:
            return Due(record, pending, urgency, padding=size - pending)
        return Due(record, largest(sizes, pending), urgency)
    if nothing_follows or (record.jobs == 0 and lead_s < LEAST_LEAD_S):
        return Due(record, largest(sizes, pending), lead_s)
    # half of the lead may pass until the next chunk is there
    wanted = max(largest(sizes, int(lead_s / 2 / frame_s)), sizes[0])
    if pending < wanted:
        return None
    return Due(record, wanted, lead_s, patience=wanted + wanted // PATIENCE - pending)


def rows_together(frames: int, most_rows: int, most_frames: int | None) -> int:
    """The most requests of a step of so many frames each."""
    return most_rows if most_frames is None else min(most_rows, max(most_frames // frames, 1))


def together(dues: Sequence[Due], most_rows: int, most_frames: int | None = None) -> list[list[Due]]:
    """Groups of equal size, the most urgent group first. `most_frames` limits the sum over a group."""
    groups: dict[int, list[Due]] = {}
    for one in sorted(dues, key=lambda d: d.urgency):
        groups.setdefault(one.size, []).append(one)
    batches = []
    for frames, group in groups.items():
        rows = rows_together(frames, most_rows, most_frames)
        batches += [group[i : i + rows] for i in range(0, len(group), rows)]
    return sorted(batches, key=lambda batch: batch[0].urgency)


def grows(batch: Sequence[Due], pending: Iterable[int]) -> bool:
    """Whether it is better to wait for other requests, which have `pending` frames and gain one a turn."""
    turns = min(one.patience for one in batch)
    return turns > 0 and any(0 < batch[0].size - count <= turns for count in pending)


class SoundSteps:
    """A chunk of the codec for several slots."""

    def __init__(self, context: StepContext, stream: Stream) -> None:
        self._context, self._stream = context, stream
        model, plan = context.model, context.plan
        self._decoder = slot_decoder(model.codec, plan.slots + 1, max(plan.chunks), model.ops.codec)
        self._workers = context.device.workers() if self._decoder.in_c else None
        most = min(plan.slots, max(plan.sound_rows))
        self._row_sizes = (*(rows for rows in plan.sound_rows if rows < most), most)
        # by rows: slots, and the frame from which each is decoded [2, rows]
        self._inputs = {rows: context.indices([context.spare] * rows, [0] * rows) for rows in self._row_sizes}
        self._out: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._replays: dict[tuple[int, int], Replay] = {}
        if context.captures:
            sizes = [(frames, rows) for frames in plan.chunks for rows in self._row_sizes]
            self._decoder.prepare(sizes)
            for key in sorted(sizes, key=lambda s: s[0] * s[1], reverse=True):
                self._replays[key] = stream.capture(lambda key=key: self._run(*key))

    @property
    def most_rows(self) -> int:
        """Slots decoded together at most."""
        return max(self._row_sizes)

    def _codes(self, frames: int, rows: int) -> tuple[Tensor, Tensor]:
        """The codes to decode [rows, frames, G], and their slots. What pads a chunk may hold the end code."""
        slots, starts = self._inputs[rows]
        index = starts[:, None] + torch.arange(frames, device=slots.device)
        codes = self._context.table.codes[slots[:, None], index]
        return codes.clamp(0, self._context.model.facts.codes - 1) if self._context.device.pads else codes, slots

    def _run(self, frames: int, rows: int) -> None:
        codes, slots = self._codes(frames, rows)
        self._out[frames, rows] = (self._decoder.decode(codes, slots), codes)

    def clear(self, slots: Sequence[int]) -> None:
        """New streams start in `slots`."""
        with self._stream:
            indices = self._context.indices(*slots)
            if self._workers is None:
                self._decoder.clear(indices)
            else:  # a job of a cancelled request may still be in the queue
                self._workers.run(lambda: self._decoder.clear(indices) or (), slots)

    def launch(self, frames: int, slots: Sequence[int], starts: Sequence[int]) -> Fetch:
        """Decode `frames` frames of each slot from its entry of `starts`; the fetch holds [sound, codes] by row."""
        rows = fitting(self._row_sizes, len(slots)) if self._context.device.pads else len(slots)
        padding = rows - len(slots)
        with self._stream:
            inputs = self._context.indices([*slots, *[self._context.spare] * padding], [*starts, *[0] * padding])
            if (frames, rows) in self._replays:
                self._inputs[rows].copy_(inputs, non_blocking=True)
                self._replays[frames, rows]()
            else:
                self._inputs[rows] = inputs
                if self._workers is not None:
                    codes, where = self._codes(frames, rows)
                    return self._workers.run(lambda: (self._decoder.decode(codes, where), codes), slots)
                self._run(frames, rows)
            return self._stream.fetch(*self._out[frames, rows])


MOST = 4
"""Jobs in flight at once; more would only queue up, and an urgent one must not wait long."""
FEW = 8
"""Up to this many requests, the host also waits for the jobs that are queued before a first sound. Frames of few rows
take the whole device, so each further frame in the queue would delay those jobs. On an H200 at 20 requests a second,
the first packet's p95 is 12 instead of 17 to 21 ms.
"""


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
    rows: list[tuple[Due, int]]  # first frame of each

    @property
    def awaited(self) -> bool:
        """It holds a request's first sound, which is worth waiting for: the next frame has been launched already."""
        return any(one.record.first_sound is None and start >= one.record.reference for one, start in self.rows)


class CodecJobs:
    """Decodes chunks in a stream of its own, after the frames that they are made of."""

    def __init__(self, context: StepContext, frame_stream: Stream) -> None:
        self._facts, self._plan, self._frame_stream = context.model.facts, context.plan, frame_stream
        self._pads, self._captures = context.device.pads, context.device.captures
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

    def launch(self, records: Iterable[Record], turn_s: float = math.inf) -> bool:
        """Decode what is due, as far as there is room; returns whether anything was launched.

        `turn_s`: the time that a frame takes.
        """
        if len(self._jobs) >= MOST:
            return False
        now, launched = time.perf_counter(), False
        dues: list[Due] = []
        pending: set[int] = set()
        for record in records:
            one = self._due(record, now, turn_s)
            if one is not None:
                dues.append(one)
            elif record.runnable:
                pending.add(record.reference + record.made - record.decoding)
        limits = self._steps.most_rows, self._plan.sound_frames
        for batch in together(dues, *limits):
            if len(self._jobs) >= MOST:
                break
            if self._pads and len(batch) < rows_together(batch[0].size, *limits) and grows(batch, pending):
                continue
            if any(one.record.unreported(one.record.decoding + one.frames) for one in batch):
                self._stream.wait_event(self._frame_stream.record_event())
            rows = [(one, one.record.decoding) for one in batch]
            fetch = self._steps.launch(batch[0].size, [one.record.slot for one in batch], [start for _, start in rows])
            self._jobs.append(CodecJob(fetch, rows))
            for one in batch:
                one.record.decoding += one.frames
                one.record.jobs += 1
            launched = True
        return launched

    def _due(self, record: Record, now: float, turn_s: float) -> Due | None:
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
        # the frames of an answer come as fast as its tokens
        next_s = frame_s if record.turns is not None else min(turn_s, frame_s)
        room = plan.frames - record.decoding if self._pads else 0
        return due(record, available, lead_s, plan.chunks, plan.first_chunk, next_s, fixed=plan.fixed_chunks, room=room)

    def collect(self, wait: bool, speaking: int = 0) -> Iterator[Decoded]:
        """What has come back, and with `wait` at least one job's.

        `speaking`: the number of requests that have a slot.
        After a job in which half of all have ended, jobs without a first sound stay for later, so that newcomers enter.
        """
        while self._jobs and (wait or self._awaited(speaking) or self._jobs[0].fetch.done()):
            wait = False  # one result is enough to go on with
            job = self._jobs.popleft()
            sound, codes = job.fetch.wait(soon=job.awaited)
            for row, (one, start) in enumerate(job.rows):
                one.record.jobs -= 1
                samples = sound.shape[1] // one.size * one.frames
                yield Decoded(one.record, start, sound[row, :samples], codes[row, : one.frames])
            ended = sum(one.record.state is State.DONE for one, _ in job.rows)
            if 0 < speaking <= 2 * ended and not any(other.awaited for other in self._jobs):
                return

    def _awaited(self, speaking: int) -> bool:
        few = self._captures and speaking <= FEW
        return any(job.awaited for job in (self._jobs if few else [self._jobs[0]]))
