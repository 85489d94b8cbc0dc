"""Pitch and spectrum of sounds of which both are known."""

from __future__ import annotations

import numpy as np
import pytest

from omnitts_cli.training.acoustics import BANDS, average_spectrum, distance, measured, pitch
from omnitts_cli.training.teacher import SAMPLE_RATE

TIME = np.arange(2 * SAMPLE_RATE) / SAMPLE_RATE


def buzz(hertz: float, slope: float = 1.0) -> np.ndarray:
    """A tone with overtones, each weaker than the last."""
    tones = [np.sin(2 * np.pi * hertz * n * TIME + n) / n**slope for n in range(1, int(7000 / hertz))]
    return (0.1 * np.sum(tones, 0)).astype(np.float32)


@pytest.mark.parametrize("hertz", [75.0, 98.0, 130.0, 171.0, 215.0, 300.0])
def test_the_pitch_is_found_and_not_its_octave(hertz: float) -> None:
    assert abs(pitch(buzz(hertz)) / hertz - 1) < 0.02


def test_noise_and_silence_have_no_pitch() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, SAMPLE_RATE).astype(np.float32)
    assert np.isnan(pitch(noise))
    assert np.isnan(pitch(np.zeros(SAMPLE_RATE, np.float32)))
    assert np.isnan(pitch(np.zeros(100, np.float32)))


def test_the_spectrum_does_not_hear_loudness_but_brightness() -> None:
    dull, bright = buzz(120.0, 2.0), buzz(120.0, 0.5)
    assert average_spectrum(dull).shape == (BANDS,)
    assert np.allclose(average_spectrum(dull), average_spectrum(dull * 0.3), atol=0.1)
    low, high = (average_spectrum(sound)[-8:].mean() for sound in (dull, bright))
    assert high > low + 5


def test_two_stretches_of_one_voice_are_nearer_than_two_voices() -> None:
    one, same, other = measured(buzz(120.0)), measured(buzz(122.0) * 0.5), measured(buzz(180.0, 1.6))
    assert distance(one, same) < 2 < 6 < distance(one, other)
