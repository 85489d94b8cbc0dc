"""Gauge: measurements of the device while a load runs. None if they are not available."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Gauge:
    """Filled after the load; several runs of one level are summed."""

    frames: int | None = None  # engine steps, each one frame for every occupied slot
    syncs: int | None = None  # host synchronizations other than for results
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
    """The sum of two gauges."""
    return other if one is None else one if other is None else one + other
