"""CodecJobs: decides which frames the codec decodes, when, and how many together; collects the sound.

The first chunk is small, so that sound starts at once; later ones grow with the lead over playback, because large
chunks cost less per frame. The sound does not depend on these sizes.
"""

import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from omnitts_cli.devices.device import Fetch, Stream
from omnitts_cli.engine.slots import Record, Replay, State, StepContext, fitting
from omnitts_cli.request import BULK

LEAST_LEAD_S = 0.25
"""A player with less sound than this is served first."""
SCARCE_LEAD_S = 0.072
"""A player with less sound than this gets its frames as they come, however few."""
SMALL_ROWS = 32
"""Between these two leads, a chunk smaller than wanted is decoded only for so many requests together."""
END_TURNS, END_RUNNING, END_LEAD_S = 2.5, 12, 0.1
"""A request that has ended may wait for others to end, beside `END_RUNNING` running ones or more, and while its player
has `END_LEAD_S` of sound. Requests that end in one codec call are followed by requests that share a prefill and their
first chunks. Each such group costs about half of `END_TURNS` turns. If a request has n frames, groups and idle slots
together cost least when an end waits for up to the square root of END_TURNS n turns. As soon as one end cannot wait any
longer, all of them are decoded in one call, padded to the same size.
"""
PATIENCE = 2
"""One large codec call costs less than two small ones, so a chunk of n frames may wait for other requests for up to n /
PATIENCE turns. Its player has sound for at least 2 n turns.
"""


@dataclass(frozen=True)
class Due:
    """Frames of one request that should be decoded now. A lower urgency comes first."""

    record: Record
    frames: int
    urgency: float
    padding: int = 0  # frames that are decoded after these and dropped
    patience: int = 0  # turns that these frames may wait for those of other requests
    small: bool = False  # fewer frames than wanted, and its player has enough sound to wait for more
    room: int = 0  # of the last chunk of a request: frames that its slot has space for, so that it can be padded

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
    ended_s: float = math.inf,
    least: int = 1,
) -> Due | None:
    """The next chunk of a request that has `available` frames (reference included) and gains one every `frame_s`.
    `fixed`: only full chunks, whatever the time, so that chunks are the same in every run. `room`: frames that the slot
    still has space for; if a padded chunk fits into it, the end of a request is one chunk. `ended_s`: seconds since the
    last frame of a request that has ended. `least`: frames of a chunk that others may follow.
    """
    pending = available - record.decoding
    dropped = record.reference - record.decoding
    if dropped > 0:  # the reference's sound is dropped, but the codec needs its frames as history
        return Due(record, largest(sizes, min(pending, dropped)), -1.0)
    starved = record.starved and record.turns is None  # an answer's next tokens arrive soon
    nothing_follows = record.state is State.FINISHING or starved or record.paused
    if pending <= 0 or (pending < least and not nothing_follows):
        return None
    if record.first_sound is None and record.decoding == record.reference:
        if pending < first and not nothing_follows:
            return None
        return Due(record, largest(sizes, min(pending, max(first, least))), 0.0)
    if fixed:
        full = pending >= sizes[-1] or nothing_follows
        return Due(record, largest(sizes, pending), 0.0) if full else None
    if record.state is State.FINISHING:
        return last(record, pending, lead_s, sizes, frame_s, room, ended_s)
    if nothing_follows:
        return Due(record, largest(sizes, pending), lead_s)
    # the next chunk may take half of the lead
    wanted = max(largest(sizes, int(lead_s / 2 / frame_s)), sizes[0])
    if record.jobs == 0 and lead_s < LEAST_LEAD_S:
        return Due(record, largest(sizes, pending), lead_s, small=pending < wanted and lead_s >= SCARCE_LEAD_S)
    if pending < wanted:
        return None
    return Due(record, wanted, lead_s, patience=wanted + wanted // PATIENCE - pending)


def last(
    record: Record, pending: int, lead_s: float, sizes: Sequence[int], frame_s: float, room: int, ended_s: float
) -> Due:
    """The last chunk of a request, padded if there is room. Its slot is free afterwards, so it goes before those with a
    lead."""
    urgency = min(lead_s, LEAST_LEAD_S)
    if not room or record.first_sound is None or pending > sizes[-1] or (size := fitting(sizes, pending)) > room:
        return Due(record, largest(sizes, pending), urgency)
    turns = min(math.sqrt(END_TURNS * record.made) - ended_s / frame_s, (lead_s - END_LEAD_S) / frame_s)
    patience = math.ceil(turns) if turns > 0 else 0
    return Due(record, pending, urgency, size - pending, patience=patience, room=room)


def rows_together(frames: int, most_rows: int, most_frames: int | None) -> int:
    """The most requests in one codec call, with `frames` frames each."""
    return most_rows if most_frames is None else min(most_rows, max(most_frames // frames, 1))


def together(dues: Sequence[Due], most_rows: int, most_frames: int | None = None) -> list[list[Due]]:
    """Groups chunks of equal size, the most urgent group first. `most_frames` limits the frames of a group."""
    groups: dict[int, list[Due]] = {}
    for one in sorted(dues, key=lambda d: d.urgency):
        groups.setdefault(one.size, []).append(one)
    batches = []
    for frames, group in groups.items():
        rows = rows_together(frames, most_rows, most_frames)
        batches += [group[i : i + rows] for i in range(0, len(group), rows)]
    return sorted(batches, key=lambda batch: batch[0].urgency)


def grows(batch: Sequence[Due], pending: Iterable[int]) -> bool:
    """Whether other requests, which have `pending` frames and gain one per turn, could still join in time."""
    turns = min(one.patience for one in batch)
    return turns > 0 and any(0 < batch[0].size - count <= turns for count in pending)


def few(ends: Sequence[int], running: int) -> bool:
    """Whether requests that have ended, with so many frames each, are few beside `running` ones: fewer than end on
    average in the time for which one may wait.
    """
    return running >= END_RUNNING and len(ends) <= running * math.sqrt(END_TURNS * len(ends) / max(sum(ends), 1))


def ends_together(dues: Sequence[Due], running: int) -> list[Due]:
    """The same chunks without those of requests that have ended, as long as all of these may wait for others. Else all
    of them are padded to the size of the largest, if they have room for it.
    """
    ends = [one for one in dues if one.room]
    if not ends:
        return list(dues)
    if few([one.record.made for one in ends], running) and all(one.patience > 0 for one in ends):
        return [one for one in dues if not one.room]
    size = max(one.size for one in ends)
    return [replace(one, padding=size - one.frames) if one.room >= size else one for one in dues]


def waits(batch: Sequence[Due], pending: Iterable[int]) -> bool:
    """Whether chunks that do not fill a codec call are left for a later one, which more requests will share. Ends that
    may wait are not among them.
    """
    if any(one.room for one in batch):
        return False
    return grows(batch, pending) or (len(batch) < SMALL_ROWS and all(one.small for one in batch))


class SoundSteps:
    """Launches the codec for chunks of several slots."""

    def __init__(self, context: StepContext, stream: Stream) -> None:
        self._context, self._stream = context, stream
        model, plan = context.model, context.plan
        self._decoder = model.decoder(plan.slots + 1, max(plan.chunks))
        self._ahead = context.indices(*range(max(plan.chunks)))
        self._workers = context.device.workers() if self._decoder.beside else None
        most = min(plan.slots, max(plan.sound_rows))
        self._row_sizes = (*(rows for rows in plan.sound_rows if rows < most), most)
        # by rows: slots, and the frame from which each is decoded [2, rows]
        self._inputs = {rows: context.indices([context.spare] * rows, [0] * rows) for rows in self._row_sizes}
        self._out: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._replays: dict[tuple[int, int], Replay] = {}
        if context.captures:
            sizes = [
                (frames, rows)
                for frames in plan.chunks
                for rows in self._row_sizes
                if rows <= fitting(self._row_sizes, rows_together(frames, most, plan.sound_frames))
            ]
            self._decoder.prepare(sizes)
            for key in sorted(sizes, key=lambda s: s[0] * s[1], reverse=True):
                self._replays[key] = stream.capture(partial(self._run, *key))

    @property
    def beside(self) -> bool:
        """Whether the codec has threads of its own, beside the frames."""
        return self._workers is not None

    @property
    def most_rows(self) -> int:
        """The most slots in one codec call."""
        return max(self._row_sizes)

    def _codes(self, frames: int, rows: int) -> tuple[Any, Any]:
        """The codes to decode [rows, frames, G], and their slots. The padding of a chunk may hold the end code."""
        slots, starts = self._inputs[rows]
        index = starts[:, None] + self._ahead[:frames]
        codes = self._context.table.codes[slots[:, None], index]
        return codes.clamp(0, self._context.model.facts.codes - 1) if self._context.device.pads else codes, slots

    def _run(self, frames: int, rows: int) -> None:
        codes, slots = self._codes(frames, rows)
        self._out[frames, rows] = (self._decoder.decode(codes, slots), codes)

    def clear(self, slots: Sequence[int]) -> None:
        """New streams start in `slots`. Call this and `launch` in the stream."""
        indices = self._context.indices(*slots)
        if self._workers is None:
            self._decoder.clear(indices)
        else:  # a job of a cancelled request may still be in the queue
            self._workers.run(partial(self._cleared, indices), slots)

    def _cleared(self, slots: Any) -> tuple[()]:
        self._decoder.clear(slots)
        return ()

    def launch(self, frames: int, slots: Sequence[int], starts: Sequence[int]) -> Fetch:
        """Decode `frames` frames of each slot from its entry of `starts`; the fetch holds [sound, codes] by row."""
        rows = fitting(self._row_sizes, len(slots)) if self._context.device.pads else len(slots)
        padding = rows - len(slots)
        inputs = self._context.indices([*slots, *[self._context.spare] * padding], [*starts, *[0] * padding])
        if (frames, rows) in self._replays:
            self._inputs[rows][:] = inputs
            self._replays[frames, rows]()
        else:
            self._inputs[rows] = inputs
            if self._workers is not None:
                codes, where = self._codes(frames, rows)
                return self._workers.run(lambda: (self._decoder.decode(codes, where), codes), slots)
            self._run(frames, rows)
        return self._stream.fetch(*self._out[frames, rows])


MOST = 4
"""The most jobs in flight; more would only queue up and delay urgent ones."""
FEW, SOME = 8, 128
"""With up to `FEW` requests, the host launches no further frame until all queued jobs with a first sound are done. A
frame of few rows occupies the whole device, so it would delay them. On an H200 at 20 requests a second, the first
packet's p95 is 12 ms instead of 17 to 21. With up to `SOME`, the same holds if at least half of the next frame's
requests wait for their first sound; with more, too much throughput would be lost.
"""
MANY, NEWCOMERS = 14, 4
"""With `MANY` requests running, and at most one in `NEWCOMERS` of them waiting for its first sound, the host launches
the next frame before it waits for that sound. Otherwise the device is idle from the end of the codec's call until then.
"""


@dataclass(frozen=True, eq=False)
class Decoded:
    """The sound of one request's frames from `start` on. The arrays are views of a job's result."""

    record: Record
    start: int
    sound: np.ndarray  # [T * samples per frame] float32
    codes: np.ndarray  # [T, G] int64


@dataclass(frozen=True, eq=False)
class CodecJob:
    """A codec call in flight."""

    fetch: Fetch
    rows: list[tuple[Due, int]]  # each with its first frame
    turn: int  # in which it was launched

    @property
    def awaited(self) -> bool:
        """Whether it holds the first sound of a request. The host waits for it, since the next frame is already
        launched."""
        return any(one.record.first_sound is None and start >= one.record.reference for one, start in self.rows)

    @property
    def ends(self) -> bool:
        """Whether a request ends with it."""
        return any(one.room for one, _ in self.rows)


class CodecJobs:
    """Decodes chunks in a stream of its own, each after its frames."""

    def __init__(self, context: StepContext, frame_stream: Stream) -> None:
        self._facts, self._plan, self._frame_stream = context.model.facts, context.plan, frame_stream
        self._pads, self._captures = context.device.pads, context.device.captures
        self._stream = context.device.stream()
        self._steps = SoundSteps(context, self._stream)
        self._bulk_frames = 1 if self._steps.beside else self._plan.bulk_chunk
        self.in_flight: deque[CodecJob] = deque()  # their sound has not been collected
        self._fresh: list[int] = []  # slots to clear
        self._turn = 0  # of the engine: each collects once
        self._frame_s = 1 / self._facts.frame_rate

    def clear(self, slots: Sequence[int]) -> None:
        """New requests begin in `slots`: their state is cleared before the next launch."""
        self._fresh += slots

    def launch(self, records: Iterable[Record], turn_s: float = math.inf) -> bool:
        """Launch due chunks, up to MOST jobs; returns whether anything was launched. `turn_s`: time per frame."""
        if len(self.in_flight) >= MOST:
            return False
        with self._stream:
            if self._fresh:
                self._steps.clear(self._fresh)
                self._fresh = []
            return self._launch(records, turn_s)

    def _launch(self, records: Iterable[Record], turn_s: float) -> bool:
        now, launched = time.perf_counter(), False
        found = [(record, self._due(record, now, turn_s)) for record in records]
        dues = [one for _, one in found if one is not None]
        pending = set[int]()  # frames of those of whom nothing is due
        if self._pads:
            runnable = [(record, one) for record, one in found if record.runnable]
            pending = {record.reference + record.made - record.decoding for record, one in runnable if one is None}
            dues = ends_together(dues, len(runnable))
        limits = self._steps.most_rows, self._plan.sound_frames
        for batch in together(dues, *limits):
            if len(self.in_flight) >= MOST:
                break
            full = len(batch) == rows_together(batch[0].size, *limits)
            if self._pads and not full and waits(batch, pending):
                continue
            if any(one.record.unreported(one.record.decoding + one.frames) for one in batch):
                self._stream.follow(self._frame_stream)
            rows = [(one, one.record.decoding) for one in batch]
            fetch = self._steps.launch(batch[0].size, [one.record.slot for one in batch], [start for _, start in rows])
            self.in_flight.append(CodecJob(fetch, rows, self._turn))
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
            # the end code cannot come earlier, so these frames are certain before they are reported
            made = max(made, min(record.launched, least))
        available = record.reference + made
        if available <= record.decoding:
            return None
        played = record.delivered - record.reference
        lead_s = 0.0 if record.first_sound is None else played * frame_s - (now - record.first_sound)
        # the frames of an answer come as fast as its tokens
        next_s = frame_s if record.turns is not None else min(turn_s, frame_s)
        room = plan.frames - record.decoding if self._pads else 0
        ended_s = math.inf if record.ended is None else now - record.ended
        return due(
            record, available, lead_s, plan.chunks, plan.first_chunk, next_s,
            fixed=plan.fixed_chunks, room=room, ended_s=ended_s,
            least=self._bulk_frames if record.priority == BULK else 1,
        )  # fmt: skip

    def collect(self, wait: bool, speaking: int = 0, running: int = 0) -> Iterator[Decoded]:
        """Yields the sound of finished jobs; with `wait`, of at least one. `speaking`: the number of requests that have
        a slot; `running`: of those that the next frame would be for. After a job in which at least half of all have
        ended, jobs without a first sound are left for later, so that waiting requests get slots sooner.
        """
        while self.in_flight and (wait or self._awaited(speaking, running) or self.in_flight[0].fetch.done()):
            wait = False  # one result is enough to go on with
            job = self.in_flight.popleft()
            if self._captures and job.awaited:
                self._stream.hurry(job.fetch)
            sound, codes = job.fetch.result()
            for row, (one, start) in enumerate(job.rows):
                one.record.jobs -= 1
                samples = sound.shape[1] // one.size * one.frames
                yield Decoded(one.record, start, sound[row, :samples], codes[row, : one.frames])
            ended = sum(one.record.state is State.DONE for one, _ in job.rows)
            if 0 < speaking <= 2 * ended and not any(other.awaited for other in self.in_flight):
                break
        self._turn += 1

    def _awaited(self, speaking: int, running: int) -> bool:
        next_job = self.in_flight[0]
        if self._captures and running >= END_RUNNING and next_job.ends and next_job.turn < self._turn:
            return True  # else its slots would stay empty for one more frame
        if next_job.awaited:
            few = self._captures and MANY <= running >= NEWCOMERS * self._newcomers()
            return not few or next_job.turn < self._turn
        if not self._captures or not any(job.awaited for job in self.in_flight):
            return False
        return speaking <= FEW or (speaking <= SOME and 0 < running <= 2 * self._newcomers())

    def _newcomers(self) -> int:
        """The number of requests with a chunk in flight that have no sound yet."""
        return len({one.record.id for job in self.in_flight for one, _ in job.rows if one.record.first_sound is None})
