"""Tape: pieces of speech one after another as one sound: gaps, joins without clicks, pace, and its clock."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from omnitts_cli.audio.pcm import dbfs, gain, silence
from omnitts_cli.audio.stretch import Stretcher

if TYPE_CHECKING:
    from omnitts_cli.audio.loudness import Meter
    from omnitts_cli.audio.sinks import Sink

JOIN_S = 0.005


class Tape:
    """What is written here arrives at the sink. Nothing inside a piece is changed unless pace or level say so.

    A join needs no look at what follows: the step from the last sample of one piece to the first of what
    comes next is spread over the first 5 ms behind it.
    """

    def __init__(
        self, sink: Sink, rate: int, *, speed: float = 1.0, volume_db: float = 0.0, meter: Meter | None = None
    ) -> None:
        self.sink, self.rate = sink, rate
        self._speed, self._gain = speed, gain(volume_db)
        self._stretch = Stretcher(speed, rate)
        self._last = np.float32(0.0)  # the sample before the next one
        self._join = False  # the next sample begins something new behind something old
        self.samples = 0
        self.peak = 0.0
        self._meter = meter

    @property
    def seconds(self) -> float:
        return self.samples / self.rate

    @property
    def peak_dbfs(self) -> float:
        return dbfs(self.peak)

    @property
    def lufs(self) -> float | None:
        """How loud it all was, where that was measured and there was enough to measure."""
        measured = self._meter.lufs() if self._meter else -inf
        return measured if isfinite(measured) else None

    def pause(self, seconds: float) -> None:
        """Silence between pieces."""
        if seconds > 0:
            self._put(silence(seconds, self.rate))
            self._join = True

    def write(self, samples: np.ndarray) -> None:
        """More of the piece."""
        self._put(self._stretch.feed(samples))

    def end_piece(self) -> None:
        """The piece is whole; a finished one is never lost."""
        self._put(self._stretch.flush())
        self._stretch = Stretcher(self._speed, self.rate)
        self._join = True
        self.sink.sentence_done()

    def _put(self, samples: np.ndarray) -> None:
        if not samples.size:
            return
        if self._gain != 1.0:
            samples = samples * self._gain
        if self._join:
            samples = joined(self._last, samples, self.rate)
            self._join = False
        self._last = samples[-1]
        self.samples += samples.size
        self.peak = max(self.peak, float(np.max(np.abs(samples))))
        if self._meter:
            self._meter.feed(samples)
        self.sink.write(samples)


def joined(last: np.float32, samples: np.ndarray, rate: int) -> np.ndarray:
    """The samples with the step from `last` to their first one spread over the first 5 ms."""
    step = last - samples[0]
    length = min(samples.size, max(1, int(JOIN_S * rate)))
    result = samples.copy()
    result[:length] += step * np.linspace(1.0, 0.0, length, endpoint=False, dtype=np.float32)
    return result
