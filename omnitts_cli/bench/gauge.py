"""Gauge: what a target tells about its device while a load runs. None where nobody can tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Gauge:
    """Filled when the load is over; several runs of one level are added up."""

    frames: int | None = None  # turns of the engine, each a frame for every slot that had one
    syncs: int | None = None  # times that the host waited for the device other than for results
    peak_bytes: int | None = None

    @property
    def syncs_per_frame(self) -> float | None:
        return None if self.syncs is None or not self.frames else self.syncs / self.frames

    def add(self, other: Gauge) -> None:
        self.frames = total(self.frames, other.frames)
        self.syncs = total(self.syncs, other.syncs)
        known = [peak for peak in (self.peak_bytes, other.peak_bytes) if peak is not None]
        self.peak_bytes = max(known, default=None)


def total(one: int | None, other: int | None) -> int | None:
    """The sum of what is known."""
    return other if one is None else one if other is None else one + other
