"""The lock of a folder, and what a failed write is called."""

import errno
import json
import os
from pathlib import Path

import pytest

from omnitts_cli.errors import OutputError
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.disk import File, Lock


@pytest.mark.parametrize(
    ("owner", "free"),
    [
        ({"pid": 1 << 22, "host": "", "boot": ""}, True),  # dead
        ({"pid": 1, "host": "", "boot": ""}, False),  # alive
        ({"pid": 1, "host": "", "boot": "another boot"}, True),
        ({"pid": 1, "host": "another machine", "boot": ""}, False),
        ({}, True),
        ("not json", True),
    ],
)
def test_a_lock_without_flock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, free: bool) -> None:
    """Network file systems without locks: the process that the file names counts."""
    monkeypatch.setattr(disk, "locked", lambda descriptor: None)
    here = disk.this_process()
    if isinstance(owner, dict) and owner:
        owner = {name: value or here[name] for name, value in owner.items()}
    (tmp_path / disk.LOCK).write_text(owner if isinstance(owner, str) else json.dumps(owner))
    if free:
        Lock(tmp_path).release()
    else:
        with pytest.raises(OutputError, match="is in use by process 1"):
            Lock(tmp_path)


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "write", lambda descriptor, data: os.write(descriptor, data[:3]))
    file = File(tmp_path / "x")
    assert file.write(b"0123456789") == 10
    file.seek(2)
    file.write(b"ab")
    assert file.tell() == 4
    file.close()
    file.close()
    assert (tmp_path / "x").read_bytes() == b"01ab456789"
    more = File(tmp_path / "x", append=True)
    assert more.end == 10
    more.cut(4)
    more.write(b"!")
    more.close()
    assert (tmp_path / "x").read_bytes() == b"01ab!"


def test_a_full_disk_says_how_much_is_missing(tmp_path: Path) -> None:
    error = disk.failed(OSError(errno.ENOSPC, "No space left on device", "x"), tmp_path, 12_345)
    assert "no space left" in error.message and "12,345 bytes are still needed" in str(error.cause)
    assert "free some space" in str(error.hint) and error.exit_code == 8
    assert "the device reported an error" in disk.failed(OSError(errno.EIO, "", "x"), tmp_path).message
    assert disk.free_bytes(tmp_path / "not" / "there" / "yet") > 0


def test_a_small_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.put(tmp_path / "a", b"one")

    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(disk, "write", full)
    with pytest.raises(OSError, match="full"):
        disk.put(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"one"
