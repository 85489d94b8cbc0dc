"""The pitch of sounds whose pitch is known, and a whistle."""

import numpy as np
import pytest

from omnitts_cli.bench.acoustics import LINES, pitch, tallest_tone
from omnitts_cli.bench.evaluate import RATE

TIME = np.arange(2 * RATE) / RATE


def buzz(hertz: float) -> np.ndarray:
    """A tone with overtones, each weaker than the last."""
    tones = [np.sin(2 * np.pi * hertz * n * TIME + n) / n for n in range(1, int(7000 / hertz))]
    return (0.1 * np.sum(tones, 0)).astype(np.float32)


@pytest.mark.parametrize("hertz", [75.0, 98.0, 130.0, 171.0, 215.0, 300.0])
def test_the_pitch_is_found_and_not_its_octave(hertz: float) -> None:
    assert abs(pitch(buzz(hertz)) / hertz - 1) < 0.02


def test_noise_and_silence_have_no_pitch() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)
    assert np.isnan(pitch(noise))
    assert np.isnan(pitch(np.zeros(RATE, np.float32)))
    assert np.isnan(pitch(np.zeros(100, np.float32)))


def test_a_whistle_is_found() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)
    assert tallest_tone([noise])[1] < 3
    whistle = 0.02 * np.sin(2 * np.pi * 8039 * np.arange(RATE) / RATE)
    hertz, above = tallest_tone([(noise + whistle).astype(np.float32)])
    assert abs(hertz - 8039) < RATE / LINES and above > 6
