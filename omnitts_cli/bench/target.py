"""BenchTarget: where a load is sent, an engine in this process or a server; and what is measured of its device."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from omnitts_cli.bench.record import Result, Work
from omnitts_cli.errors import OmniError

Ended = Callable[[Result], None]


@dataclass
class Gauge:
    """Measurements of the device while a load runs; None if they are not available. Several runs of one level are
    summed.
    """

    frames: int | None = None  # engine steps, each one frame for every occupied slot
    syncs: int | None = None  # host synchronizations other than for results
    peak_bytes: int | None = None

    @property
    def syncs_per_frame(self) -> float | None:
        return None if self.syncs is None or not self.frames else self.syncs / self.frames

    def add(self, other: "Gauge") -> None:
        self.frames = total(self.frames, other.frames)
        self.syncs = total(self.syncs, other.syncs)
        known = [peak for peak in (self.peak_bytes, other.peak_bytes) if peak is not None]
        self.peak_bytes = max(known, default=None)


def total(one: int | None, other: int | None) -> int | None:
    """The sum of two gauges."""
    return other if one is None else one if other is None else one + other


class Closed(Exception):
    """Why a closed target accepts no more requests."""


class BenchTarget(AbstractContextManager[Any], Protocol):
    """`send` returns at once; `ended` is called in the thread that saw the end of the request."""

    broken: BaseException | None
    """The error that stopped the target, if any; nothing more is sent then."""
    advice: str
    """What to try when no request succeeds."""
    unusable: type[OmniError]
    """The error when no request succeeds."""

    def send(self, work: Work, wanted: float, ended: Ended) -> None: ...

    def gauged(self) -> AbstractContextManager[Gauge]:
        """Measures the device inside the context; fills the gauge at its end."""
        ...
