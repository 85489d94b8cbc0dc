"""Plan: the number and length of slots, bucket and chunk sizes. Fixed when the engine is built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from omnitts_cli.models.roles import LEAST_FRAMES

CUDA_BUCKETS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128)


@dataclass(frozen=True)
class Plan:
    """`buckets`: batch sizes a frame is captured for; `chunks`: frames decoded together, ascending."""

    slots: int
    positions: int  # prompt rows + frames of one request
    frames: int  # frames of one request, reference included
    buckets: tuple[int, ...]
    chunks: tuple[int, ...] = (1, 2, 4, 8, 16)
    sound_rows: tuple[int, ...] = (1, 2, 4, 8, 16, 32)  # slots decoded together
    sound_frames: int | None = None  # frames decoded together, over all slots; None: any number
    # prompt rows of all new requests in one step
    prefill_rows: tuple[int, ...] = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 640, 768, 1024, 1280, 1536, 2048)
    prompt_run: int = 256  # rows of one prompt between two frames
    first_chunk: int = 1
    admissions: int = 16  # prompts that advance between two frames
    ahead: int = 2  # frames launched before the oldest one's report is awaited
    text_rows: int = 256  # of a slot's ring; longer feeds are topped up
    prefixes: int = 64  # prompt prefixes whose keys and values are kept
    stall_frames: int = 50  # the same group-0 code for this long: 4 s
    silence_frames: int = 125  # below -60 dBFS for this long: 10 s
    capture: bool = True

    def __post_init__(self) -> None:
        assert 1 <= self.slots <= max(self.buckets), "all slots must fit into the largest bucket"
        ascending = all(sooner < later for sooner, later in pairwise(self.chunks))
        assert self.chunks[0] == 1 and ascending, "any number of frames must be a sum of chunks"
        assert self.sound_frames is None or self.sound_frames >= 1
        assert self.text_rows >= 1 and self.first_chunk >= 1 and self.admissions >= 1
        assert self.stall_frames >= LEAST_FRAMES, (
            "frames before the first possible end are decoded before they are reported"
        )

    @staticmethod
    def of(
        slots: int,
        seconds: float,
        frame_rate: float,
        *,
        prompt_rows: int = 512,
        pads: bool = True,
        buckets: Iterable[int] | None = None,
        **more: Any,
    ) -> Plan:
        """A plan for `slots` requests of up to `seconds` each."""
        frames = int(seconds * frame_rate) + 1
        sizes = buckets or (CUDA_BUCKETS if pads else range(1, slots + 1))
        whole = Plan(slots=slots, positions=frames + prompt_rows, frames=frames, buckets=(*sizes, slots), **more)
        return whole.with_slots(slots)

    def with_slots(self, slots: int) -> Plan:
        """The same with at most as many slots, buckets and admissions."""
        buckets = (*sorted({size for size in self.buckets if size < slots}), slots)
        return replace(self, slots=slots, buckets=buckets, admissions=min(self.admissions, slots))

    def with_few_graphs(self) -> Plan:
        """The same with fewer captured sizes, for devices where graphs are scarce: 24 instead of 58 at 32 slots."""
        doubles = {size for size in self.buckets if size & (size - 1) == 0}
        return replace(
            self,
            buckets=(*sorted(doubles - {self.slots}), self.slots),
            sound_rows=(1, 8, 32),
            prefill_rows=(32, 128, 512),
            admissions=min(self.admissions, 4),
        )
