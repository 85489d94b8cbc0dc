"""Meter: when sound came out, and what a listener would have noticed. The only place that computes speed.

RTF is compute time over audio time: lower is better. The clock of a request starts when it is submitted; a chunk is
playable when the caller has it.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from omnitts_cli.engine.slots import AUDIBLE

STORED_S = 0.2
"""A player that holds this much sound before it starts is the one whose underruns are counted."""


@dataclass
class RequestMeter:
    """One request: arrival times of its sound."""

    sample_rate: int
    submitted: float
    arrivals: list[tuple[float, int]] = field(default_factory=list)  # (time, samples)
    audible: float | None = None  # when a player that starts at once plays the first audible sample
    onset_s: float | None = None  # silence before that sample
    plays_until: float = 0.0  # end of what that player holds
    ended: float | None = None
    stopped: str | None = None

    def add(self, pcm: np.ndarray, now: float) -> None:
        """Sound that arrived at `now`."""
        if not pcm.size:
            return
        start = max(now, self.plays_until)
        if self.audible is None:
            loud = np.flatnonzero(np.abs(pcm) > AUDIBLE)
            if loud.size:
                before = int(loud[0]) / self.sample_rate
                self.audible, self.onset_s = start + before, self.audio_s + before
        self.arrivals.append((now, int(pcm.size)))
        self.plays_until = start + pcm.size / self.sample_rate

    def end(self, now: float, stopped: str | None) -> None:
        """The request is over, and why."""
        self.ended, self.stopped = now, stopped

    @property
    def audio_s(self) -> float:
        """Seconds of sound so far."""
        return sum(samples for _, samples in self.arrivals) / self.sample_rate

    @property
    def first_s(self) -> float | None:
        """From submission to the first playable sound."""
        return self.arrivals[0][0] - self.submitted if self.arrivals else None

    @property
    def audible_s(self) -> float | None:
        """From submission to the first audible sample; leading silence counts."""
        return None if self.audible is None else self.audible - self.submitted

    @property
    def wall_s(self) -> float | None:
        """From submission to the end."""
        return None if self.ended is None else self.ended - self.submitted

    @property
    def rtf(self) -> float | None:
        """Real-time factor: seconds of work per second of sound."""
        return self.wall_s / self.audio_s if self.wall_s is not None and self.audio_s else None

    @property
    def gap_s(self) -> float:
        """The longest pause between two arrivals."""
        times = [at for at, _ in self.arrivals]
        return max((later - sooner for sooner, later in pairwise(times)), default=0.0)

    def underruns(self, stored_s: float = STORED_S) -> int:
        """How often a player that starts once it holds `stored_s` would run dry."""
        count, held, playing, before = 0, 0.0, False, 0.0
        for at, samples in self.arrivals:
            if playing:
                held -= at - before
                if held < 0:
                    count, held, playing = count + 1, 0.0, False
            before = at
            held += samples / self.sample_rate
            playing = playing or held >= stored_s
        return count
