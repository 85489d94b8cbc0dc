"""Sounds for the tests of this room: something like speech, made without a file or a seed of the clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

RATE = 24_000


def speech_like(seconds: float, rate: int = RATE) -> np.ndarray:
    """A buzz with a wandering pitch, in syllables with pauses between them. [samples] float32"""
    t = np.arange(round(seconds * rate)) / rate
    phase = 2 * np.pi * np.cumsum(140 + 30 * np.sin(2 * np.pi * 0.7 * t)) / rate
    buzz = sum(np.sin(k * phase) / k for k in range(1, 9))
    syllables = np.clip(np.sin(2 * np.pi * 2.5 * t), 0, 1) * (np.sin(2 * np.pi * 0.4 * t) > -0.8)
    noise = np.random.default_rng(7).standard_normal(t.size) * 1e-4
    return (0.25 * buzz * syllables + noise).astype(np.float32)


@pytest.fixture
def speech() -> Callable[..., np.ndarray]:
    return speech_like


@pytest.fixture
def clip(tmp_path: Path) -> Callable[..., Path]:
    """Writes a sound to a file in any format that libsndfile knows."""

    def write(name: str, sound: np.ndarray | None = None, rate: int = RATE, **how: str) -> Path:
        path = tmp_path / name
        soundfile.write(path, speech_like(4.0, rate) if sound is None else sound, rate, **how)
        return path

    return write
