"""Work and Heard: one request as planned, and as its client saw it. Failures are found here, never called fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from omnitts_cli.audio.chunk import Stopped
from omnitts_cli.engine.meter import RequestMeter
from omnitts_cli.request import Request
from omnitts_cli.voices import Voice

GUARD = ("limit", "stall", "silence")
"""Reasons to stop that are not the end of the speech. A fixed number of frames stops at its limit by design."""


@dataclass(frozen=True)
class Work:
    """One request of a load. With `listen`, its voice is made from a clip inside the measured time."""

    request: Request
    listen: Callable[[], Voice] | None = None

    @property
    def fixed(self) -> bool:
        """Whether the number of frames was asked for."""
        return self.request.ignore_end and self.request.max_frames is not None


@dataclass
class Heard:
    """What came back. The meter's clock starts when the request is sent; `wanted` is when the load wanted that."""

    work: Work
    wanted: float
    meter: RequestMeter
    keep: bool = False
    sound: list[np.ndarray] = field(default_factory=list)  # float32, only with `keep`
    frames: int | None = None  # None: the target does not tell
    failure: str | None = None
    broken: bool = False  # samples that are no numbers were heard

    def hear(self, pcm: np.ndarray, now: float) -> None:
        self.meter.add(pcm, now)
        if not np.isfinite(pcm).all():
            self.broken = True
        if self.keep:
            self.sound.append(pcm)

    def end(self, now: float, stopped: Stopped | None, failure: str | None = None) -> None:
        """The last of it. What looks complete but is not becomes a failure here."""
        self.meter.end(now, stopped)
        self.failure = failure or self._fault(stopped)

    def _fault(self, stopped: Stopped | None) -> str | None:
        if stopped == "cancelled":
            return "cancelled"
        if self.broken:
            return "samples that are not finite"
        if not self.meter.arrivals:
            return "no audio"
        if self.work.fixed and self.frames is not None and self.frames != self.work.request.max_frames:
            return f"{self.frames} frames instead of {self.work.request.max_frames}"
        return None

    @property
    def guard_hit(self) -> bool:
        return self.meter.stopped in GUARD and not self.work.fixed

    @property
    def queue_s(self) -> float:
        """How long the request waited in the client."""
        return max(0.0, self.meter.submitted - self.wanted)
