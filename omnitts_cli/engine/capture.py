"""Captured steps: which steps are captured as graphs, for which sizes, over which fixed buffers.

There are three steps: a frame per batch bucket, a prefill per number of rows, a codec chunk per (frames, rows).
Batches are padded to the next size with the spare slot. The stream does the capturing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.devices.device import Device, Fetch, Stream
from omnitts_cli.engine.frame import frame, fused_frame
from omnitts_cli.engine.plan import Plan
from omnitts_cli.engine.slots import SlotTable
from omnitts_cli.models.layers import KVCache
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.slot_decoder import slot_decoder

Replay = Callable[[], None]


def fitting(sizes: Sequence[int], wanted: int) -> int:
    """The smallest of `sizes` that holds `wanted`."""
    return min(size for size in sizes if size >= wanted)


def round_up(number: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-number // step) * step


@dataclass
class StepContext:
    """What every captured step works on: the model, its state on the device, and the plan."""

    model: SpeechModel
    device: Device
    plan: Plan
    table: SlotTable
    cache: KVCache

    @property
    def spare(self) -> int:
        """The slot that pads batches."""
        return self.plan.slots

    @property
    def captures(self) -> bool:
        """Whether steps are captured as graphs."""
        return self.plan.capture and self.device.captures

    def indices(self, *numbers: int | Sequence[int]) -> Tensor:
        """The numbers as an int64 tensor on the device."""
        return self.device.to_device(np.asarray(numbers, np.int64))

    def width(self, last: int) -> int:
        """A bound on the positions of a step: fixed in graphs, else tight, as the cost of attention depends on it."""
        return self.cache.capacity if self.captures else min(round_up(last + 1, 32), self.cache.capacity)


class FrameSteps:
    """One captured frame per batch bucket."""

    def __init__(self, context: StepContext, stream: Stream) -> None:
        self._context, self._stream = context, stream
        spare = [context.spare]
        self._slots = {size: context.indices(*spare * size) for size in context.plan.buckets}
        self._loaded: dict[int, tuple[int, ...]] = {}
        self._replays: dict[int, Replay] = {}
        self._fused = fused_frame(context.model, context.table, context.cache, context.plan.stall_frames)
        if context.captures:
            for size in sorted(context.plan.buckets, reverse=True):  # the largest first: the others fit into its memory
                self._replays[size] = stream.capture(lambda size=size: self._run(size, context.cache.capacity))

    def _run(self, size: int, width: int) -> None:
        context = self._context
        if self._fused is not None:
            self._fused(self._slots[size])
            return
        frame(context.model, context.table, context.cache, self._slots[size], width, context.plan.stall_frames)

    def launch(self, slots: Sequence[int], last: int) -> None:
        """One frame for `slots`, whose positions are at most `last`."""
        size = fitting(self._context.plan.buckets, len(slots))
        batch = (*slots, *[self._context.spare] * (size - len(slots)))
        with self._stream:
            if self._loaded.get(size) != batch:
                self._slots[size].copy_(self._context.indices(*batch), non_blocking=True)
                self._loaded[size] = batch
            if size in self._replays:
                self._replays[size]()
            else:
                self._run(size, self._context.width(last))
        if self._context.model.predictor.fused is not None:
            self._context.model.predictor.fused.check()


@dataclass(eq=False)
class PromptRun:
    """Prompt rows [P, H] for `slot` from position `start` on."""

    rows: Tensor
    start: int
    slot: int


PIECE = 8
"""Rows of one prompt that lie together in a captured step: as many as a tile of attention holds."""


class PrefillSteps:
    """Prompt rows into the cache. A captured step takes the rows of many prompts end to end, in pieces of `PIECE`.

    Each piece has its slot and its position, so only the last piece of a prompt is padded. One captured step per
    total number of rows.
    """

    def __init__(self, context: StepContext, stream: Stream) -> None:
        self._context, self._stream = context, stream
        self.longest = min(context.plan.prompt_run, max(context.plan.prefill_rows), context.cache.capacity)
        self._sizes = sorted({round_up(size, PIECE) // PIECE for size in context.plan.prefill_rows})  # in pieces
        self._replays: dict[int, Replay] = {}
        if context.captures:
            most, model = self._sizes[-1], context.model
            self._rows = torch.zeros((most, PIECE, model.facts.hidden), device=model.device, dtype=model.dtype)
            self._zeros = torch.zeros_like(self._rows[0])
            self._places = context.indices([0] * most, [context.spare] * most)  # starts and slots [2, pieces]
            for size in reversed(self._sizes):
                self._replays[size] = stream.capture(lambda size=size: self._prefill(size))

    def _prefill(self, size: int) -> None:
        context, (starts, slots) = self._context, self._places[:, :size]
        context.model.talker.prefill(self._rows[:size], starts, slots, context.cache, context.cache.capacity)

    def launch(self, runs: Sequence[PromptRun]) -> None:
        """Any number of runs, none longer than `longest`."""
        # padding must stay inside the cache; near its end the exact length is run uncaptured
        padded = [run for run in runs if self._replays and self._end(run) <= self._context.cache.capacity]
        with self._stream:
            for run in runs:
                if run not in padded:
                    self._eager_run(run)
            if padded:
                self._captured_runs(padded)

    def _end(self, run: PromptRun) -> int:
        return run.start + round_up(run.rows.shape[0], PIECE)

    def _captured_runs(self, runs: Sequence[PromptRun]) -> None:
        context, most = self._context, self._sizes[-1]
        starts = [start for run in runs for start in range(run.start, self._end(run), PIECE)]
        slots = [run.slot for run in runs for _ in range(run.start, self._end(run), PIECE)]
        steps = [fitting(self._sizes, min(most, len(slots) - first)) for first in range(0, len(slots), most)]
        spare = sum(steps) - len(slots)
        places = context.indices(starts + [0] * spare, slots + [context.spare] * spare)
        # zeros, because an earlier prompt's rows may not have been finite
        parts = [part for run in runs for part in (run.rows, self._zeros[: -run.rows.shape[0] % PIECE])]
        rows = torch.cat([*parts, *[self._zeros] * spare]).unflatten(0, (-1, PIECE))
        first = 0
        for size in steps:
            self._places[:, :size].copy_(places[:, first : first + size], non_blocking=True)
            self._rows[:size].copy_(rows[first : first + size])
            self._replays[size]()
            first += size

    def _eager_run(self, run: PromptRun) -> None:
        context = self._context
        width = context.width(run.start + run.rows.shape[0] - 1)
        start, slot = context.indices(run.start), context.indices(run.slot)
        context.model.talker.prefill(run.rows[None], start, slot, context.cache, width)


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
        """The codes to decode [rows, frames, G], and their slots."""
        slots, starts = self._inputs[rows]
        index = starts[:, None] + torch.arange(frames, device=slots.device)
        return self._context.table.codes[slots[:, None], index], slots

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
