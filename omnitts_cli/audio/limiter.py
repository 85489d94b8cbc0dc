"""Limiter: turns sound up and keeps its true peak under a ceiling. It looks a few milliseconds ahead.

The true peak is that of the curve through the samples (ITU-R BS.1770-4, annex 2), found by oversampling to 192 kHz.
Work is done in hops of one length, however the sound arrives: streamed sound gets the very samples of whole sound.
"""

import math
from functools import lru_cache

import numpy as np

CEILING_DBTP = -1.0
MARGIN_DB = 0.2  # the gain changes between samples too, and a peak may fall between two points of 192 kHz
CEILING = 10.0 ** ((CEILING_DBTP - MARGIN_DB) / 20.0)
OVERSAMPLED_HZ = 192_000
HALF = 16  # samples on each side that the curve between two samples is drawn from; exact below 0.46 of the rate
WINDOW = 5.0  # the beta of Kaiser's window
AHEAD_S, RELEASE_S = 0.005, 0.06
HOP = 2048
SETTLED = 1e-5  # nepers; a smaller reduction is none


@lru_cache(4)
def between(factor: int) -> np.ndarray:
    """The curve at `factor` - 1 places between two samples, from the samples around: [factor - 1, 2 HALF]."""
    samples = np.arange(2 * HALF)[None] - (HALF - 1)  # [1, 2 HALF] relative to the earlier of the two
    distance = samples - np.arange(1, factor)[:, None] / factor
    inside = np.clip(1.0 - (distance / HALF) ** 2, 0.0, None)
    taps: np.ndarray = np.sinc(distance) * np.i0(WINDOW * np.sqrt(inside)) / np.i0(WINDOW)
    return (taps / taps.sum(1, keepdims=True)).astype(np.float32)


def peaks(sound: np.ndarray, factor: int) -> np.ndarray:
    """The highest absolute value of the curve in the two gaps beside each sample.

    `sound` has HALF samples more on each side.
    """
    windows = np.lib.stride_tricks.sliding_window_view(sound, 2 * HALF)
    gaps = np.abs(between(factor) @ windows.T).max(0)  # [n + 1]
    return np.maximum(np.maximum(gaps[:-1], gaps[1:]), np.abs(sound[HALF:-HALF]))


def true_peak(sound: np.ndarray, rate: int) -> float:
    """The true peak of a whole sound."""
    padded = np.pad(np.asarray(sound, np.float32), HALF)
    steps = range(0, sound.size, HOP)
    factor = oversampling(rate)
    return max((float(peaks(padded[at : at + HOP + 2 * HALF], factor).max()) for at in steps), default=0.0)


def oversampling(rate: int) -> int:
    return max(2, math.ceil(OVERSAMPLED_HZ / rate))


def highest_of_next(values: np.ndarray, count: int) -> np.ndarray:
    """The highest of each value and the `count` after it."""
    width = 1
    while 2 * width <= count + 1:
        values = np.maximum(values[:-width], values[width:])
        width *= 2
    rest = count + 1 - width
    return np.maximum(values[: values.size - rest], values[rest:]) if rest else values


class Limiter:
    """Multiplies a stream by `gain`, less where its true peak would pass the ceiling.

    A peak is turned down smoothly over the 5 ms before it; after it, the reduction fades within 0.2 s.
    """

    def __init__(self, rate: int, gain: float, ceiling: float = CEILING) -> None:
        self._gain, self._ceiling, self._factor = np.float32(gain), ceiling, oversampling(rate)
        self._ahead = max(HALF, round(AHEAD_S * rate))
        self._smooth = np.hanning(self._ahead + 3)[1:-1]  # of the reduction: it begins and ends gently
        self._smooth /= self._smooth.sum()
        self._fade = np.exp(-np.arange(1, HOP + 1) / (RELEASE_S * rate))
        self._needed = np.zeros(self._ahead)  # nepers, of the samples ahead
        self._past = np.zeros(self._ahead)  # nepers held for earlier samples
        self._sound = np.zeros(self._ahead, np.float32)  # not written yet
        self._early = self._ahead  # of these samples in front of the first one
        self._fed = self._given = 0
        self._loudest_tap = float(np.abs(between(self._factor)).sum(1).max())

    def feed(self, samples: np.ndarray) -> np.ndarray:
        """The samples that are ready after this block, possibly none."""
        self._fed += samples.size
        return self._ready(samples)

    def flush(self) -> np.ndarray:
        """The rest, once no more is fed."""
        missing = self._fed - self._given
        return self._ready(np.zeros(self._ahead + HALF + 2 * HOP, np.float32))[:missing]

    def _ready(self, samples: np.ndarray) -> np.ndarray:
        self._sound = np.concatenate([self._sound, samples * self._gain])
        done, at = [np.zeros(0, np.float32)], 0
        while self._sound.size - at >= HOP + self._ahead + HALF:
            done.append(self._hop(self._sound[at : at + HOP + self._ahead + HALF]))
            at += HOP
        self._sound = self._sound[at:]
        ready = np.concatenate(done)
        early, self._early = self._early, max(0, self._early - ready.size)
        ready = ready[early:]
        self._given += ready.size
        return ready

    def _hop(self, sound: np.ndarray) -> np.ndarray:
        """The first HOP samples, limited; the others are what is ahead of them."""
        ahead = sound[self._ahead - HALF :]  # [HOP + 2 HALF]
        quiet = float(np.max(np.abs(ahead))) * self._loudest_tap <= self._ceiling
        if quiet and not self._needed.any() and not self._past.any():
            return sound[:HOP]
        needed = np.zeros(HOP) if quiet else np.log(np.maximum(peaks(ahead, self._factor) / self._ceiling, 1.0))
        known = np.concatenate([self._needed, needed])
        held = self._released(highest_of_next(known, self._ahead)[:HOP])
        reduction = np.convolve(np.concatenate([self._past, held]), self._smooth, "valid")
        self._needed, self._past = known[HOP:], held[-self._ahead :]
        return sound[:HOP] * np.exp(-reduction).astype(np.float32)

    def _released(self, wanted: np.ndarray) -> np.ndarray:
        """The reduction that rises at once and fades exponentially."""
        before = self._past[-1] * self._fade
        held: np.ndarray = np.maximum(np.maximum.accumulate(wanted / self._fade) * self._fade, before)
        held[held < SETTLED] = 0.0
        return held
