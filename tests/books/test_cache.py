"""The cache of books: runs side by side, also on machines that share it, and what a killed one has left."""

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.books.cache import RUNS, UnitCache
from omnitts_cli.errors import OutputError


def test_a_run_leaves_other_runs_and_other_users_alone(tmp_path: Path) -> None:
    """The number of a process says nothing on another machine, or in another container."""
    first = UnitCache(tmp_path)
    (first.work / "unit").write_text("half")
    second = UnitCache(tmp_path)
    assert (first.work / "unit").exists() and first.work != second.work
    second.close()
    first.close()
    assert list((tmp_path / RUNS).iterdir()) == []
    cache = UnitCache(tmp_path / "books")
    assert stat.S_IMODE((tmp_path / "books").stat().st_mode) == 0o700
    cache.close()


def test_what_killed_runs_have_left_is_removed(tmp_path: Path) -> None:
    runs = tmp_path / RUNS
    for name in ("1234567", "0123456789abcdef", ".begun", ".old"):
        (runs / name).mkdir(parents=True)
    hours_ago = time.time() - 5 * 3600
    os.utime(runs / ".old", (hours_ago, hours_ago))
    cache = UnitCache(tmp_path)
    assert sorted(path.name for path in runs.iterdir()) == sorted([".begun", cache.work.name])
    cache.close()


@pytest.mark.parametrize("damage", [lambda data: b"no sound", lambda data: data[:200] + bytes(100) + data[300:]])
def test_a_damaged_part_is_removed_and_spoken_again(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """A book never ends with an internal error, or with a part cut short, because of a bad disk."""
    soundfile = pytest.importorskip("soundfile")
    cache = UnitCache(tmp_path)
    part = cache.work / "part.flac"
    soundfile.write(part, np.random.default_rng(1).normal(0, 0.1, 8000), 16_000)
    cache.put("00unit", part, 16_000, 0.5, [])
    found = cache.get("00unit")
    assert found is not None and found.sound().size == 8000
    data = found.path.read_bytes()
    found.path.write_bytes(damage(data).ljust(len(data), b"\0"))
    with pytest.raises(OutputError):
        found.sound()
    assert not cache.has("00unit")
    cache.close()
