"""Acoustics without a model: the pitch of a voice and its average spectrum, and how far two voices are apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from omnitts_cli.models.speaker import hertz, mels
from omnitts_cli.training.teacher import SAMPLE_RATE

LOWEST, HIGHEST = 60.0, 380.0  # Hz, of a voice
WINDOW, HOP = 1200, 480  # samples: three periods of a deep voice, 50 windows a second
VOICED = 0.5  # of a perfect repetition
SPECTRUM_WINDOW = 1024
BANDS = 24
QUIETEST = 1e-6  # beside the loudest band


@dataclass(frozen=True)
class Sounding:
    """How a voice sounds on the whole. `spectrum`: decibels of each band, around their mean."""

    pitch: float  # Hz, the median over what is voiced; nan if nothing is
    spectrum: np.ndarray  # [BANDS]


def measured(sound: np.ndarray) -> Sounding:
    """`sound`: mono float32 at 24 kHz."""
    return Sounding(pitch(sound), average_spectrum(sound))


def pitch(sound: np.ndarray) -> float:
    """Median over the voiced windows, each by its normalised autocorrelation."""
    shortest, longest = int(SAMPLE_RATE / HIGHEST), int(SAMPLE_RATE / LOWEST)
    span = WINDOW + longest
    if len(sound) < span:
        return float("nan")
    windows = np.lib.stride_tricks.sliding_window_view(sound, span)[::HOP].astype(np.float64)
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
    # the first lag that is nearly the best: two periods repeat as well as one
    first = (likeness > 0.9 * best[:, None]).argmax(1)
    lags = np.array([_peak(row, at) for row, at in zip(likeness, first, strict=True)]) + shortest
    voiced = best > VOICED
    return float(np.median(SAMPLE_RATE / lags[voiced])) if voiced.any() else float("nan")


def _peak(row: np.ndarray, at: int) -> int:
    """From the foot of a hill to its top."""
    while at + 1 < len(row) and row[at + 1] > row[at]:
        at += 1
    return at


def average_spectrum(sound: np.ndarray) -> np.ndarray:
    """Decibels in bands as wide as an ear's, from 80 Hz to 8 kHz, loudness taken out: [BANDS]."""
    if len(sound) < SPECTRUM_WINDOW:
        return np.zeros(BANDS)
    windows = np.lib.stride_tricks.sliding_window_view(sound, SPECTRUM_WINDOW)[:: SPECTRUM_WINDOW // 2]
    power = (np.abs(np.fft.rfft(windows * np.hanning(SPECTRUM_WINDOW))) ** 2).mean(0)
    lines = np.fft.rfftfreq(SPECTRUM_WINDOW, 1 / SAMPLE_RATE)
    corners = hertz(np.linspace(*mels(np.array([80.0, 8000.0])), BANDS + 1))
    bands = np.array([power[(lines >= low) & (lines < high)].mean() for low, high in pairwise(corners)])
    decibels = 10 * np.log10(bands + QUIETEST * bands.max() + 1e-20)
    return decibels - decibels.mean()


def distance(one: Sounding, other: Sounding) -> float:
    """Semitones of pitch and decibels of spectrum, about as far apart for two neighbours in a room of voices."""
    semitones = 12 * abs(np.log2(one.pitch / other.pitch))
    decibels = float(np.sqrt(np.mean((one.spectrum - other.spectrum) ** 2)))
    return float(semitones) + decibels
