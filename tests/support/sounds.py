"""Sounds for tests: something like speech, made without a file or a seed of the clock."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from omnitts_cli.speech.tts import TTS

RATE = 24_000


def speech(seconds: float, rate: int = RATE) -> np.ndarray:
    """A buzz with a wandering pitch, in syllables with pauses between them. [samples] float32"""
    t = np.arange(round(seconds * rate)) / rate
    phase = 2 * np.pi * np.cumsum(140 + 30 * np.sin(2 * np.pi * 0.7 * t)) / rate
    buzz = sum(np.sin(k * phase) / k for k in range(1, 9))
    syllables = np.clip(np.sin(2 * np.pi * 2.5 * t), 0, 1) * (np.sin(2 * np.pi * 0.4 * t) > -0.8)
    noise = np.random.default_rng(7).standard_normal(t.size) * 1e-4
    return (0.25 * buzz * syllables + noise).astype(np.float32)


Clip = Callable[..., Path]
"""The fixture `clip` of tests/audio: writes a sound to a file in any format that libsndfile knows."""


def saved_clip(tts: TTS) -> Path:
    """A recording, clip.wav; its voice is saved as "me"."""
    path = tts.speak("The kettle is on, and the bread is still warm.", voice="hugh", seed=1).save("clip.wav")
    tts.clone(path, check=False).save("me")
    return path
