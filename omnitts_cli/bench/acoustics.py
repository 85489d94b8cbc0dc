"""The pitch of a voice, and tones that do not belong in it, without a model."""

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from omnitts_cli.bench.evaluate import RATE

LOWEST, HIGHEST = 60.0, 380.0  # Hz, of a voice
WINDOW, HOP = 1200, 480  # samples: three periods of a deep voice, 50 windows a second
LINES = 1024  # samples of a spectrum in which tones are looked for
LOWEST_TONE = 3000  # Hz: below it a voice's own harmonics stand out
NEIGHBOURS = 8  # bins on either side
VOICED = 0.5  # normalised autocorrelation from which a window counts as voiced


def pitch(sound: np.ndarray) -> float:
    """Hz: the median over voiced windows, each from its normalised autocorrelation; nan without any."""
    shortest, longest = int(RATE / HIGHEST), int(RATE / LOWEST)
    span = WINDOW + longest
    if len(sound) < span:
        return float("nan")
    windows = sliding_window_view(sound, span)[::HOP].astype(np.float64)
    loud = np.sqrt((windows**2).mean(1))
    windows = windows[loud > 0.3 * np.percentile(loud, 90)]
    windows = windows - windows.mean(1, keepdims=True)
    size = 1 << (2 * span - 1).bit_length()
    start = np.fft.rfft(windows[:, :WINDOW], size)
    # sums of start[n] * whole[n + lag] for every lag, over the size of the two stretches
    products = np.fft.irfft(np.fft.rfft(windows, size) * start.conj(), size)[:, : longest + 1]
    energy = np.cumsum(np.pad(windows**2, ((0, 0), (1, 0))), 1)
    sizes = energy[:, WINDOW : WINDOW + longest + 1] - energy[:, : longest + 1]
    likeness = products / np.sqrt(sizes * sizes[:, :1] + 1e-12)
    likeness = likeness[:, shortest:]
    best = likeness.max(1)
    # the first lag that is nearly the best, because two periods repeat as well as one
    first = (likeness > 0.9 * best[:, None]).argmax(1)
    lags = np.array([_peak(row, at) for row, at in zip(likeness, first, strict=True)]) + shortest
    voiced = best > VOICED
    return float(np.median(RATE / lags[voiced])) if voiced.any() else float("nan")


def _peak(row: np.ndarray, at: int) -> int:
    """The next local maximum of the row from `at` on."""
    while at + 1 < len(row) and row[at + 1] > row[at]:
        at += 1
    return at


def tallest_tone(sounds: Sequence[np.ndarray]) -> tuple[float, float]:
    """(Hz, decibels over its neighbours) of the line that stands out most in the mean spectrum: a whistle."""
    mean = np.mean([power(sound).mean(0) for sound in sounds], 0)
    around = sliding_window_view(np.pad(mean, NEIGHBOURS, mode="edge"), 2 * NEIGHBOURS + 1)
    above = 10 * np.log10((mean + 1e-20) / (np.median(around, 1) + 1e-20))
    lines = np.fft.rfftfreq(LINES, 1 / RATE)
    at = int(np.argmax(np.where(lines >= LOWEST_TONE, above, -np.inf)))
    return float(lines[at]), float(above[at])


def power(sound: np.ndarray) -> np.ndarray:
    """The spectra of short windows: [windows, bins]."""
    long = np.pad(sound, (0, max(0, LINES - len(sound))))
    windows = sliding_window_view(long, LINES)[:: LINES // 4]
    return np.abs(np.fft.rfft(windows * np.hanning(LINES))) ** 2
