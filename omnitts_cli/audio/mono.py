"""One channel out of several: the best one, and a sentence about it. Summing could cancel a voice out."""

import numpy as np

EQUAL = 1e-4  # of full scale
OPPOSITE = -0.9  # correlation of two channels


def to_mono(samples: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """[samples, channels] -> [samples] of the loudest channel, and notices."""
    channels = samples.shape[1]
    if channels == 1:
        return np.ascontiguousarray(samples[:, 0]), []
    power = np.array([np.mean(np.square(samples[:, c], dtype=np.float64)) for c in range(channels)])  # [channels]
    best = int(np.argmax(power))
    sound = np.ascontiguousarray(samples[:, best])
    if all(np.max(np.abs(samples[:, c] - sound), initial=0.0) <= EQUAL for c in range(channels)):
        return sound, [f"the clip has {channels} identical channels; one is used"]
    notice = f"the clip has {channels} channels; channel {best + 1}, the loudest, is used"
    if channels == 2 and correlation(samples[:, 0], samples[:, 1]) < OPPOSITE:
        notice += " (the two are in opposite phase: their sum would be silence)"
    return sound, [notice]


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    a, b = one.astype(np.float64), other.astype(np.float64)
    norm = float(np.sqrt(np.dot(a, a) * np.dot(b, b)))
    return float(np.dot(a, b)) / norm if norm > 0.0 else 0.0
