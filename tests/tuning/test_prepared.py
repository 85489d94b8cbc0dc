"""Clips are encoded once, and each on its own."""

from pathlib import Path

import numpy as np
from recordings_kit import RATE, hum, write

from omnitts_cli.tuning.prepared import PreparedClip, prepare
from omnitts_cli.tuning.recordings import SpokenClip


class Counter:
    """A cloner that counts."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def codes(self, sound: np.ndarray) -> np.ndarray:
        self.heard.append(len(sound))
        return np.full((-(-len(sound) // 1920), 4), len(self.heard))

    def embedding(self, sound: np.ndarray) -> np.ndarray:
        return np.full(8, sound.std(), np.float32)


def prepared(folder: Path, clips: list[SpokenClip], cloner: Counter, total: str = "sum") -> list[PreparedClip]:
    return prepare(clips, -23.0, cloner, 1920, 3, folder, total, lambda count: None)


def test_a_second_run_encodes_nothing(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"{n}.wav", hum(1.5 + n, n)) for n in range(2)]
    clips = [SpokenClip(path, "words", 0, round((1.5 + n) * RATE), -23.0, str(n)) for n, path in enumerate(paths)]
    first, again = Counter(), Counter()
    found = prepared(tmp_path / "kept", clips, first)
    assert len(first.heard) == 8 and [length - first.heard[0] for length in first.heard[:4]] == [0, 480, 960, 1440]
    same = prepared(tmp_path / "kept", clips, again)
    assert again.heard == [] and np.array_equal(same[1].copies[2], found[1].copies[2])
    assert np.array_equal(same[0].vector, found[0].vector) and same[0].text == "words"
    prepared(tmp_path / "kept", clips, again, "another model")
    assert len(again.heard) == 8
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(b"damaged")
    prepared(tmp_path / "kept", clips, first)
    assert len(first.heard) == 16
