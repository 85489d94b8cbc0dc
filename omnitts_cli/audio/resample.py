"""Resampling by soxr in high quality, of a whole sound or of a stream; both give the same number of samples."""

from typing import Any

import numpy as np

from omnitts_cli.audio.pcm import require_finite
from omnitts_cli.errors import InputError

LOWEST_RATE = 4_000
HIGHEST_RATE = 384_000


def check_rate(rate: int) -> None:
    """Refuses rates outside 4-384 kHz: beyond them the resampler gives nothing, or gigabytes."""
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise InputError(
            f"a sample rate of {rate} Hz cannot be used",
            cause=f"rates from {LOWEST_RATE} to {HIGHEST_RATE} Hz are resampled",
        )


def resample(samples: np.ndarray, source: int, target: int) -> np.ndarray:
    """`samples` ([samples] float32) at another rate. They must be finite: one NaN would spoil hundreds of samples."""
    stream = Resampler(source, target)
    return np.concatenate([stream.feed(samples), stream.flush()])


def resampled_length(samples: int, source: int, target: int) -> int:
    """How many samples come out for `samples` that go in."""
    return samples if source == target else (samples * target + source // 2) // source


class Resampler:
    """Resamples a stream of blocks. The joined results of `feed` and `flush` have `resampled_length` samples."""

    def __init__(self, source: int, target: int) -> None:
        check_rate(source)
        check_rate(target)
        self.source, self.target = source, target
        self._fed = self._given = 0
        self._stream: Any = None
        if source != target:
            import soxr

            self._stream = soxr.ResampleStream(source, target, 1, dtype="float32", quality="HQ")

    def feed(self, samples: np.ndarray) -> np.ndarray:
        """The samples that are ready after this block, possibly empty."""
        require_finite(samples)
        if self._stream is None:
            return samples
        self._fed += samples.size
        ready: np.ndarray = self._stream.resample_chunk(np.ascontiguousarray(samples, np.float32))
        self._given += ready.size
        return ready

    def flush(self) -> np.ndarray:
        """The rest, once no more is fed. The total is cut or padded to `resampled_length`, a sample at most."""
        if self._stream is None:
            return np.zeros(0, np.float32)
        rest: np.ndarray = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        missing = resampled_length(self._fed, self.source, self.target) - self._given
        return np.pad(rest[:missing], (0, max(0, missing - rest.size)))
