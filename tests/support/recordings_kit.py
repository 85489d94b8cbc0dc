"""Folders of recordings: something like a voice, with texts."""

from pathlib import Path

import numpy as np
import soundfile

from omnitts_cli.tuning.recordings import RATE

WORDS = "the quick brown fox jumps over the lazy dog"


def hum(seconds: float, seed: int = 0, level: float = 0.1, rate: int = RATE) -> np.ndarray:
    """Something like a voice."""
    t = np.arange(round(seconds * rate)) / rate
    pitch = 120 + 10 * seed % 60 + 20 * np.sin(2 * np.pi * 2 * t)
    wave = sum(np.sin(k * 2 * np.pi * np.cumsum(pitch) / rate) / k for k in range(1, 12))
    noise = np.random.default_rng(seed).standard_normal(t.size)
    return np.asarray(level * wave * (0.51 + 0.49 * np.sin(2 * np.pi * 3 * t)) + 0.0005 * noise, np.float32)


def write(folder: Path, name: str, sound: np.ndarray, text: str | None = WORDS, rate: int = RATE) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, sound, rate)
    if text is not None:
        path.with_suffix(".txt").write_text(text)
    return path


def many(folder: Path, count: int = 24, seconds: float = 3.0) -> Path:
    for number in range(count):
        write(folder, f"{number:02}.wav", hum(seconds, number), f"{WORDS} {number}")
    return folder
