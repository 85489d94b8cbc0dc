"""Sound files: the same bytes from this process and from others, and what becomes of errors there."""

import errno
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.audio.encode import SoundFormat
from omnitts_cli.errors import GuardError, OutputError
from omnitts_cli.fleet.part import SoundFigures, SoundRecipe, Writers, make

RATE = 24_000


def sound(seed: int, seconds: float) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(int(seconds * RATE)) * 0.1).astype(np.float32)


@pytest.mark.parametrize("loudness", [None, -20.0])
def test_writers_make_the_same_files(tmp_path: Path, loudness: float | None) -> None:
    recipe = SoundRecipe(SoundFormat("flac"), RATE, loudness)
    writers, found = Writers(2, recipe), dict[int, SoundFigures]()

    def one(number: int) -> None:
        for again in range(3):
            blocks = np.array_split(sound(number, 0.5 + number / 4), 3)
            found[number] = writers.make(tmp_path / f"{number}-{again}", blocks)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(one, range(6)))
    writers.close()
    for number in range(6):
        own = make(tmp_path / "own", recipe, [sound(number, 0.5 + number / 4)])
        assert found[number] == own and own.lufs is not None
        for again in range(3):
            path = tmp_path / f"{number}-{again}"
            assert path.read_bytes() == (tmp_path / "own").read_bytes() and path.stat().st_size == own.length


def test_errors_of_writers_are_those_of_this_process(tmp_path: Path) -> None:
    writers = Writers(1, SoundRecipe(SoundFormat("wav"), RATE))
    for bad in (float("nan"), float("inf")):
        with pytest.raises(GuardError):
            writers.make(tmp_path / "x", [np.array([0.0, bad], np.float32)])
    with pytest.raises(FileNotFoundError) as missing:
        writers.make(tmp_path / "no" / "x", [sound(0, 0.1)])
    assert missing.value.errno == errno.ENOENT and str(tmp_path / "no" / "x") == missing.value.filename
    assert writers.make(tmp_path / "x", [sound(0, 0.1)]).length == 44 + 4800
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]
    writers.close()


def test_a_writer_that_was_killed_ends_the_run(tmp_path: Path) -> None:
    writers = Writers(1, SoundRecipe(SoundFormat("wav"), RATE))
    os.kill(writers._all[0].pid, signal.SIGKILL)
    with pytest.raises(OutputError, match=r"has ended \(exit status -9\)"):
        writers.make(tmp_path / "x", [sound(0, 5.0)])
    writers.close()


def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    writers = Writers(1, SoundRecipe(SoundFormat("wav"), RATE, sync=False))
    with pytest.raises(OSError, match="No space left") as full:
        writers.make(tmp_path / "full", [sound(0, 5.0)])
    assert full.value.errno == errno.ENOSPC
    writers.close()
