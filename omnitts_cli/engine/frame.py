"""One frame for many slots: talker, group 0, predictor, next input, stop flags; and its captured steps.

`frame` is a plain function of fixed shapes that never reads a value on the host, so it can be captured as one graph.
Three steps are captured: a frame per batch bucket (here), a prefill per number of rows (admission.py), a codec chunk
per frames and rows (codec_jobs.py). Batches are padded to the next size with the spare slot. The stream does the
capturing, over fixed buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from omnitts_cli.devices.device import Device, Stream
from omnitts_cli.engine.slots import Plan, SlotTable
from omnitts_cli.kernels.ops import FrameParts, Normed
from omnitts_cli.models.layers import KVCache
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.sampling import choose_first, choose_rest


def frame(model: SpeechModel, table: SlotTable, cache: KVCache, slots: Tensor, width: int, stall: int) -> None:
    """Advance `slots` [B] by one frame, in place. `width` bounds every position of this call."""
    facts, ops = model.facts, model.ops
    controls = table.controls.rows(slots, ops)
    rows, positions, made, may = ops.begin(table, slots)
    hidden = model.talker.step(rows, positions, slots, cache, width)
    logits = model.talker.logits(hidden)
    first_table = model.predictor.inputs(model.embedder)[0]
    first, row = choose_first(logits, first_table, table.seen, slots, made, controls, facts, ops)

    def choose(group: int, scores: Tensor, rows: Normed | None) -> tuple[Tensor, Normed | None]:
        return choose_rest(group, scores, rows, made, controls, ops)

    fused = model.predictor.fused
    if fused is not None and row is not None and slots.shape[0] <= fused.most_rows:
        codes = model.predictor.fused_frame(hidden, first, row, made, controls)
    else:
        codes = model.predictor.frame(hidden, first, row, model.embedder, choose)
    ops.finish(table, slots, made, may, logits, codes, controls.ignore_end, model.embedder, facts.end_code, stall)


def fused_frame(model: SpeechModel, table: SlotTable, cache: KVCache, stall: int) -> Callable[[Tensor], None] | None:
    """`frame` as one operation on slots [B], where the device has one for this model."""
    facts, ops, predictor = model.facts, model.ops, model.predictor
    if ops.fuse_frame is None or predictor.stack.fused is None or model.talker.stack.fused is None:
        return None
    project = None if predictor.project is None else (predictor.project.weight.data, predictor.project.bias.data)
    return ops.fuse_frame(
        FrameParts(
            talker=model.talker.stack.fused,
            predictor=predictor.stack.fused,
            cache=cache,
            turns=predictor.turns,
            head=model.talker.head.data,
            heads=predictor.heads.data,
            project=project,
            inputs=predictor.tables(model.embedder),
            first=model.embedder.first.data,
            rest=model.embedder.rest.data,
            table=table,
            controls=table.controls,
            end=facts.end_code,
            least_frames=facts.least_frames,
            stall=stall,
        )
    )


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
        parts = context.model.talker.fused, context.model.predictor.fused
        self._checks = [part.check for part in parts if part is not None]
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
        for check in self._checks:
            check()
