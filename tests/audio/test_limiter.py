"""The limiter: the true peak stays under the ceiling, and nothing else is changed."""

import numpy as np
import pytest

from omnitts_cli.audio.limiter import CEILING, HOP, Limiter, true_peak

RATE = 24_000
RANDOM = np.random.default_rng(4)


def limited(sound: np.ndarray, gain: float, block: int = 10**9, rate: int = RATE) -> np.ndarray:
    limiter = Limiter(rate, gain)
    parts = [limiter.feed(sound[start : start + block]) for start in range(0, sound.size, block)]
    return np.concatenate([*parts, limiter.flush()])


def noise(seconds: float, highest_hz: int = 10_000, rate: int = RATE) -> np.ndarray:
    """Bursts of noise, with nothing near half of the rate, where no finite filter finds the true peak."""
    sound = RANDOM.standard_normal(round(seconds * rate)) * np.abs(np.sin(np.arange(round(seconds * rate)) / 3000)) ** 3
    spectrum = np.fft.rfft(sound)
    spectrum[round(highest_hz * seconds) :] = 0
    return (0.3 * np.fft.irfft(spectrum, sound.size)).astype(np.float32)


def curve(sound: np.ndarray) -> np.ndarray:
    padded = np.pad(sound, 64)
    return np.abs(np.fft.irfft(np.fft.rfft(padded), padded.size * 16)) * 16


@pytest.mark.parametrize("gain", [0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("rate", [16_000, 24_000, 48_000])
def test_the_true_peak_stays_under_minus_one(gain: float, rate: int) -> None:
    sound = noise(1.5, round(rate * 0.4), rate)
    assert curve(limited(sound, gain, rate=rate)).max() <= 10 ** (-1 / 20)


def test_peaks_between_the_samples_are_found() -> None:
    """A quarter of the rate, half-way between the samples: they stay 3 dB below the curve."""
    sound = (0.8 * np.sin(np.pi / 2 * np.arange(6000) + np.pi / 4)).astype(np.float32) * np.hanning(6000)
    sound = sound.astype(np.float32)
    assert np.abs(sound).max() < 0.57
    assert true_peak(sound, RATE) == pytest.approx(0.8, rel=0.01)
    assert curve(limited(sound, 2.0)).max() <= 10 ** (-1 / 20)


@pytest.mark.parametrize("block", [1, 777, HOP, 10**9])
def test_streamed_is_whole(block: int) -> None:
    sound = noise(0.4)
    assert np.array_equal(limited(sound, 6.0, block), limited(sound, 6.0, 4096))


@pytest.mark.parametrize("size", [0, 1, 119, 120, HOP - 1, HOP, HOP + 1, 5 * HOP])
def test_as_many_samples_come_out_in_the_same_places(size: int) -> None:
    sound = noise(1.0)[:size]
    assert np.array_equal(limited(sound, 0.01), sound * np.float32(0.01))


def test_only_the_neighbourhood_of_a_peak_is_turned_down() -> None:
    sound = (0.1 * np.sin(np.arange(RATE) / 20)).astype(np.float32)
    sound[12_000:12_040] += 2.0 * np.hanning(40).astype(np.float32)
    found, far = limited(sound, 1.0), np.ones(RATE, bool)
    far[12_000 - 240 : 12_000 + 24_000 * 6 // 10] = False
    assert np.array_equal(found[far], sound[far])
    assert np.abs(found[12_000:12_040]).max() <= CEILING * 1.001
    ratio = found[11_800:18_000] / np.where(sound[11_800:18_000] == 0, 1, sound[11_800:18_000])
    assert np.abs(np.diff(ratio)).max() < 0.05  # no step: a step is heard as a click
