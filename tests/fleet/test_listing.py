"""The list of finished files: by several processes as by one."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from omnitts_cli import child
from omnitts_cli.fleet import listing
from omnitts_cli.fleet.listing import Listing
from omnitts_cli.fleet.names import name_hash


def files(out: Path) -> dict[int, int]:
    """Some files in some of the folders; the sizes by the hash of the path."""
    found = {}
    for number in range(0, 256, 3):
        folder = out / f"{number:02x}"
        folder.mkdir()
        (folder / "notes.txt").write_text("not a row")
        for file in range(number % 5):
            (folder / f"é{file}.flac").write_bytes(b"x" * (number + file))
            found[name_hash(f"{folder.name}/é{file}.flac")] = number + file
    return found


@pytest.mark.parametrize("many", [1, 10**9])
def test_every_file_is_listed_with_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    expected = files(tmp_path)
    monkeypatch.setattr(listing, "MANY", many)
    found = Listing(tmp_path, ".flac", flat=False, rows=100)
    assert len(found._running) == (4 if many == 1 else 0)
    names, sizes = found.found()
    assert dict(zip(names.tolist(), sizes.tolist(), strict=True)) == expected
    assert (np.diff(names.astype(np.float64)) > 0).all()


def test_a_process_that_fails_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = files(tmp_path)
    monkeypatch.setattr(listing, "MANY", 1)
    monkeypatch.setattr(child, "command", lambda module, *words: child.python("raise SystemExit(3)"))
    names, _ = Listing(tmp_path, ".flac", flat=False, rows=100).found()
    assert set(names.tolist()) == set(expected)


def test_a_listing_that_nobody_waits_for_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MANY", 1)
    monkeypatch.setattr(child, "command", lambda module, *words: child.python("import time; time.sleep(60)"))
    found = Listing(tmp_path, ".flac", flat=False, rows=100)
    processes: list[subprocess.Popen[bytes]] = found._running
    found.close()
    assert all(process.returncode == -9 for process in processes)


def test_one_folder(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"abc")
    (tmp_path / "report.md").write_text("not a row")
    names, sizes = Listing(tmp_path, ".wav", flat=True, rows=1).found()
    assert names.tolist() == [name_hash("a.wav")] and sizes.tolist() == [3]
