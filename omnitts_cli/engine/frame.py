"""One frame for many slots, and its captured steps.

A frame has fixed shapes and never reads a value on the host, so it can be captured as one graph.
Three steps are captured: a frame per batch bucket (here), a prefill per number of rows (admission.py), a codec chunk
per frames and rows (codec_jobs.py). Batches are padded to the next size with the spare slot. The stream does the
capturing, over fixed buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from omnitts_cli.devices.device import Device, Stream
from omnitts_cli.engine.slots import Plan, SlotTable
from omnitts_cli.models.roles import KeyValues, SpeechModel

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
    cache: KeyValues

    @property
    def spare(self) -> int:
        """The slot that pads batches."""
        return self.plan.slots

    @property
    def captures(self) -> bool:
        """Whether steps are captured as graphs."""
        return self.plan.capture and self.device.captures

    def indices(self, *numbers: int | Sequence[int]) -> Any:
        """The numbers as an int64 array on the device."""
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
        self._frame = context.model.frames(context.table, context.cache, context.plan.stall_frames)
        if context.captures:
            for size in sorted(context.plan.buckets, reverse=True):  # the largest first: the others fit into its memory
                self._replays[size] = stream.capture(partial(self._run, size, context.cache.capacity))

    def _run(self, size: int, width: int) -> None:
        self._frame(self._slots[size], width)

    def launch(self, slots: Sequence[int], last: int) -> None:
        """One frame for `slots`, whose positions are at most `last`."""
        size = fitting(self._context.plan.buckets, len(slots))
        batch = (*slots, *[self._context.spare] * (size - len(slots)))
        with self._stream:
            if self._loaded.get(size) != batch:
                self._slots[size][:] = self._context.indices(*batch)
                self._loaded[size] = batch
            if size in self._replays:
                self._replays[size]()
            else:
                self._run(size, self._context.width(last))
        self._context.model.check()
