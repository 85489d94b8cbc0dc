"""Clips for the tests of this folder."""

from pathlib import Path

import numpy as np
import pytest
from sounds import RATE, Clip, speech


@pytest.fixture
def clip(tmp_path: Path) -> Clip:
    """Writes a sound to a file in any format that libsndfile knows."""
    soundfile = pytest.importorskip("soundfile")

    def write(name: str, sound: np.ndarray | None = None, rate: int = RATE, **how: str) -> Path:
        path = tmp_path / name
        soundfile.write(path, speech(4.0, rate) if sound is None else sound, rate, **how)
        return path

    return write
