"""Work and Result: one request as planned, and as its client received it. Failed requests are detected here."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from omnitts_cli.audio.chunk import Stopped
from omnitts_cli.bench.meter import RequestMeter
from omnitts_cli.request import Request
from omnitts_cli.voices import Voice

GUARD = ("limit", "stall", "silence")
"""Stop reasons other than the end of speech. With a fixed number of frames, the limit is the expected one."""


@dataclass(frozen=True)
class Work:
    """One request of a load. With `encode`, cloning its voice is part of the measured time."""

    request: Request
    encode: Callable[[], Voice] | None = None

    @property
    def fixed(self) -> bool:
        """Whether the number of frames is fixed."""
        return self.request.ignore_end and self.request.max_frames is not None


@dataclass
class Result:
    """What was received. The clock starts when the request is sent; `wanted` is the scheduled time."""

    work: Work
    wanted: float
    meter: RequestMeter
    keep: bool = False
    sound: list[np.ndarray] = field(default_factory=list)  # float32, only with `keep`
    frames: int | None = None  # None: unknown
    failure: str | None = None
    broken: bool = False  # NaN or infinite samples were received

    def add(self, pcm: np.ndarray, now: float) -> None:
        self.meter.add(pcm, now)
        if not np.isfinite(pcm).all():
            self.broken = True
        if self.keep:
            self.sound.append(pcm)

    def end(self, now: float, stopped: Stopped | None, failure: str | None = None) -> None:
        """Ends the request; an incomplete result becomes a failure."""
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
