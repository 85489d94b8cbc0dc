"""Tape: concatenates pieces into one sound, with gaps, joins without clicks, speed and volume; knows the position."""

import numpy as np

from omnitts_cli.audio.pcm import gain, silence
from omnitts_cli.audio.stretch import WIDEST, Stretcher

JOIN_S = 0.005


class Tape:
    """Turns the samples of pieces into one sound. Samples inside a piece change only by speed and volume.

    A join needs no look-ahead: the step from the last sample of one piece to the first of the next is spread over the
    first 5 ms of the next.
    """

    def __init__(self, rate: int, *, speed: float = 1.0, volume_db: float = 0.0) -> None:
        self.rate = rate
        self._speed, self._gain = speed, gain(volume_db)
        self._stretch = Stretcher(speed, rate, WIDEST)
        self._last = np.float32(0.0)  # the sample before the next one
        self._join = False  # the next sample follows a join
        self.samples = 0

    @property
    def seconds(self) -> float:
        """Returns the seconds of sound so far."""
        return self.samples / self.rate

    def pause(self, seconds: float) -> np.ndarray:
        """Returns the silence between pieces."""
        made = self._made(silence(max(seconds, 0.0), self.rate))
        self._join = self._join or made.size > 0
        return made

    def write(self, samples: np.ndarray) -> np.ndarray:
        """Returns the next samples of the piece, processed."""
        return self._made(self._stretch.feed(samples))

    def end_piece(self) -> np.ndarray:
        """Returns the remaining samples of the piece."""
        made = self._made(self._stretch.flush())
        self._stretch = Stretcher(self._speed, self.rate, WIDEST)
        self._join = True
        return made

    def _made(self, samples: np.ndarray) -> np.ndarray:
        if not samples.size:
            return samples
        if self._gain != 1.0:
            samples = samples * self._gain
        if self._join:
            samples = joined(self._last, samples, self.rate)
            self._join = False
        self._last = samples[-1]
        self.samples += samples.size
        return samples


def joined(last: np.float32, samples: np.ndarray, rate: int) -> np.ndarray:
    """The samples with the step from `last` to their first one spread over the first 5 ms."""
    step = last - samples[0]
    length = min(samples.size, max(1, int(JOIN_S * rate)))
    result = samples.copy()
    result[:length] += step * np.linspace(1.0, 0.0, length, endpoint=False, dtype=np.float32)
    return result
