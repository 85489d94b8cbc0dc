"""Captured steps: which steps are recorded, for which sizes, over which fixed buffers.

Three steps exist: a frame per batch bucket, a prefill per prompt length, a codec chunk per (frames,
rows). Batches are padded to the next size with the spare slot. The mechanism is the stream's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.devices.device import Device, Fetch, Stream
from omnitts_cli.engine.frame import frame, fused_frame
from omnitts_cli.engine.plan import Plan
from omnitts_cli.engine.slots import SlotTable
from omnitts_cli.models.cache import KVCache
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.slot_decoder import slot_decoder

Replay = Callable[[], None]


def fitting(sizes: Sequence[int], wanted: int) -> int:
    """The smallest of `sizes` that holds `wanted`."""
    return min(size for size in sizes if size >= wanted)


def round_up(number: int, step: int) -> int:
    return -(-number // step) * step


@dataclass
class Bench:
    """What every captured step works on: the model, its state on the device, and how to record."""

    model: SpeechModel
    device: Device
    plan: Plan
    table: SlotTable
    cache: KVCache

    @property
    def spare(self) -> int:
        return self.plan.slots

    @property
    def captures(self) -> bool:
        return self.plan.capture and self.device.captures

    def indices(self, *numbers: int | Sequence[int]) -> Tensor:
        return self.device.to_device(np.asarray(numbers, np.int64))

    def width(self, last: int) -> int:
        """A bound on the positions of a step: tight where attention pays for width, fixed where captured."""
        return self.cache.capacity if self.captures else min(round_up(last + 1, 32), self.cache.capacity)


class FrameSteps:
    """One captured frame per batch bucket."""

    def __init__(self, bench: Bench, stream: Stream) -> None:
        self._bench, self._stream = bench, stream
        spare = [bench.spare]
        self._slots = {size: bench.indices(*spare * size) for size in bench.plan.buckets}
        self._held: dict[int, tuple[int, ...]] = {}
        self._replays: dict[int, Replay] = {}
        self._fused = fused_frame(bench.model, bench.table, bench.cache, bench.plan.stall_frames)
        if bench.captures:
            for size in sorted(bench.plan.buckets, reverse=True):  # the biggest first: the others fit in its memory
                self._replays[size] = stream.capture(lambda size=size: self._run(size, bench.cache.capacity))

    def _run(self, size: int, width: int) -> None:
        bench = self._bench
        if self._fused is not None:
            self._fused(self._slots[size])
            return
        frame(bench.model, bench.table, bench.cache, self._slots[size], width, bench.plan.stall_frames)

    def launch(self, slots: Sequence[int], last: int) -> None:
        """One frame for `slots`; no position of theirs is beyond `last`."""
        size = fitting(self._bench.plan.buckets, len(slots))
        held = (*slots, *[self._bench.spare] * (size - len(slots)))
        with self._stream:
            if self._held.get(size) != held:
                self._slots[size].copy_(self._bench.indices(*held), non_blocking=True)
                self._held[size] = held
            if size in self._replays:
                self._replays[size]()
            else:
                self._run(size, self._bench.width(last))


@dataclass
class PromptRun:
    """Prompt rows [P, H] that belong into `slot` from position `start` on."""

    rows: Tensor
    start: int
    slot: int


PROMPTS = (1, 4)
"""Prompts recorded together, beside as many as the plan admits at once."""


class PrefillSteps:
    """Prompt rows into the cache, a few requests together; long prompts go in runs of the largest size."""

    def __init__(self, bench: Bench, stream: Stream) -> None:
        self._bench, self._stream = bench, stream
        self._sizes = tuple(size for size in bench.plan.prefill_rows if size < bench.cache.capacity)
        self._sizes = self._sizes or (bench.cache.capacity,)
        most = bench.plan.admissions
        self._batches = (*(size for size in PROMPTS if size < most), most)
        self._inputs: dict[int, Tensor] = {}  # by batch: starts and slots [2, batch]
        self._rows: dict[tuple[int, int], Tensor] = {}
        self._replays: dict[tuple[int, int], Replay] = {}
        if bench.captures:
            for batch in self._batches:
                self._inputs[batch] = bench.indices([0] * batch, [bench.spare] * batch)
            self._nothing = torch.zeros(
                (self.longest, bench.model.facts.hidden), device=bench.model.device, dtype=bench.model.dtype
            )
            for key in sorted(product(self._batches, self._sizes), key=lambda k: k[0] * k[1], reverse=True):
                shape = (*key, bench.model.facts.hidden)
                self._rows[key] = torch.zeros(shape, device=bench.model.device, dtype=bench.model.dtype)
                self._replays[key] = stream.capture(lambda key=key: self._captured(*key))

    @property
    def longest(self) -> int:
        return max(self._sizes)

    def _captured(self, batch: int, size: int) -> None:
        starts, slots = self._inputs[batch]
        bench = self._bench
        bench.model.talker.prefill(self._rows[batch, size], starts, slots, bench.cache, bench.cache.capacity)

    def launch(self, runs: Sequence[PromptRun]) -> None:
        """At most plan.admissions runs, none longer than `longest`."""
        size = fitting(self._sizes, max(run.rows.shape[0] for run in runs))
        # padding must stay inside the cache; near its end the exact length is run uncaptured
        padded = bool(self._replays) and all(run.start + size <= self._bench.cache.capacity for run in runs)
        with self._stream:
            if padded:
                self._together(runs, size)
            else:
                for run in runs:
                    self._alone(run)

    def _together(self, runs: Sequence[PromptRun], size: int) -> None:
        bench = self._bench
        batch = fitting(self._batches, len(runs))
        padding = batch - len(runs)
        starts, slots = [run.start for run in runs], [run.slot for run in runs]
        inputs = bench.indices(starts + [0] * padding, slots + [bench.spare] * padding)
        self._inputs[batch].copy_(inputs, non_blocking=True)
        pieces = [piece for run in runs for piece in (run.rows, self._nothing[: size - run.rows.shape[0]])]
        pieces += [self._nothing[:size]] * padding  # an earlier prompt's rows may not have been finite
        self._rows[batch, size].flatten(0, 1).copy_(torch.cat(pieces))  # two kernels, where each piece would be one
        self._replays[batch, size]()

    def _alone(self, run: PromptRun) -> None:
        bench = self._bench
        width = bench.width(run.start + run.rows.shape[0] - 1)
        start, slot = bench.indices(run.start), bench.indices(run.slot)
        bench.model.talker.prefill(run.rows[None], start, slot, bench.cache, width)


class SoundSteps:
    """A chunk of the codec for several streams whose state lives in slots."""

    def __init__(self, bench: Bench, stream: Stream) -> None:
        self._bench, self._stream = bench, stream
        model, plan = bench.model, bench.plan
        self._decoder = slot_decoder(model.codec, plan.slots + 1, max(plan.chunks), model.ops.codec)
        most = min(plan.slots, max(plan.sound_rows))
        self._row_sizes = (*(rows for rows in plan.sound_rows if rows < most), most)
        # by rows: slots, and the frame from which each is decoded [2, rows]
        self._inputs = {rows: bench.indices([bench.spare] * rows, [0] * rows) for rows in self._row_sizes}
        self._out: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._replays: dict[tuple[int, int], Replay] = {}
        if bench.captures:
            sizes = [(frames, rows) for frames in plan.chunks for rows in self._row_sizes]
            self._decoder.prepare(sizes)
            for key in sorted(sizes, key=lambda s: s[0] * s[1], reverse=True):
                self._replays[key] = stream.capture(lambda key=key: self._run(*key))

    @property
    def most_rows(self) -> int:
        return max(self._row_sizes)

    def _run(self, frames: int, rows: int) -> None:
        table, (slots, starts) = self._bench.table, self._inputs[rows]
        index = starts[:, None] + torch.arange(frames, device=slots.device)
        codes = table.codes[slots[:, None], index]
        self._out[frames, rows] = (self._decoder.decode(codes, slots), codes)

    def clear(self, slots: Sequence[int]) -> None:
        """New streams start in `slots`."""
        with self._stream:
            self._decoder.clear(self._bench.indices(*slots))

    def launch(self, frames: int, slots: Sequence[int], starts: Sequence[int]) -> Fetch:
        """Decode `frames` frames of each slot from its `starts`; what comes back is [sound, codes] by row."""
        rows = fitting(self._row_sizes, len(slots)) if self._bench.device.pads else len(slots)
        padding = rows - len(slots)
        with self._stream:
            inputs = self._bench.indices([*slots, *[self._bench.spare] * padding], [*starts, *[0] * padding])
            if (frames, rows) in self._replays:
                self._inputs[rows].copy_(inputs, non_blocking=True)
                self._replays[frames, rows]()
            else:
                self._inputs[rows] = inputs
                self._run(frames, rows)
            return self._stream.fetch(*self._out[frames, rows])
