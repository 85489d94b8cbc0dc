"""The pitch of sounds whose pitch is known."""

from __future__ import annotations

import numpy as np
import pytest

from omnitts_cli.training.acoustics import pitch
from omnitts_cli.training.teacher import SAMPLE_RATE

TIME = np.arange(2 * SAMPLE_RATE) / SAMPLE_RATE


def buzz(hertz: float) -> np.ndarray:
    """A tone with overtones, each weaker than the last."""
    tones = [np.sin(2 * np.pi * hertz * n * TIME + n) / n for n in range(1, int(7000 / hertz))]
    return (0.1 * np.sum(tones, 0)).astype(np.float32)


@pytest.mark.parametrize("hertz", [75.0, 98.0, 130.0, 171.0, 215.0, 300.0])
def test_the_pitch_is_found_and_not_its_octave(hertz: float) -> None:
    assert abs(pitch(buzz(hertz)) / hertz - 1) < 0.02


def test_noise_and_silence_have_no_pitch() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, SAMPLE_RATE).astype(np.float32)
    assert np.isnan(pitch(noise))
    assert np.isnan(pitch(np.zeros(SAMPLE_RATE, np.float32)))
    assert np.isnan(pitch(np.zeros(100, np.float32)))
