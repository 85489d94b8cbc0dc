"""The cache of books: runs side by side, also on machines that share it, and what a killed one has left."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from omnitts_cli.books.cache import RUNS, Cache


def test_a_run_leaves_the_folders_of_others_alone(tmp_path: Path) -> None:
    """The number of a process says nothing on another machine, or in another container."""
    first = Cache(tmp_path)
    (first.work / "unit").write_text("half")
    second = Cache(tmp_path)
    assert (first.work / "unit").exists() and first.work != second.work
    second.close()
    first.close()
    assert list((tmp_path / RUNS).iterdir()) == []


def test_what_killed_runs_have_left_is_removed(tmp_path: Path) -> None:
    runs = tmp_path / RUNS
    for name in ("1234567", "0123456789abcdef", ".begun", ".old"):
        (runs / name).mkdir(parents=True)
    hours_ago = time.time() - 5 * 3600
    os.utime(runs / ".old", (hours_ago, hours_ago))
    cache = Cache(tmp_path)
    assert sorted(path.name for path in runs.iterdir()) == sorted([".begun", cache.work.name])
    cache.close()


def test_a_new_cache_is_for_its_user_alone(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "books")
    assert stat.S_IMODE((tmp_path / "books").stat().st_mode) == 0o700
    cache.close()
