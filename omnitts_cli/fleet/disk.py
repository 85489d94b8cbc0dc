"""Files of a run: every open, write, fsync and rename goes through here, so that tests can make any of them fail.

Also the lock that keeps a second run out of a folder.
"""

import errno
import io
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from omnitts_cli.audio.outlet import write_error
from omnitts_cli.audio.target import alive
from omnitts_cli.errors import OmniError, OutputError
from omnitts_cli.parse import ParseError, json_object

LOCK = "lock"
WORK = ".omnitts"  # our folder in the output
OURS = ("manifest.jsonl", "report.md", "report.png")  # our files beside it


class File(io.FileIO):
    """A file that is being written. Every byte is written or an OSError is raised.

    Writes after close are ignored: libsndfile still makes some when it frees a discarded file.
    """

    def __init__(self, path: Path, *, append: bool = False, new: bool = False) -> None:
        """`new`: raises FileExistsError if the file exists."""
        how = os.O_RDWR | os.O_CREAT | (os.O_EXCL if new else 0 if append else os.O_TRUNC)
        super().__init__(path, "r+", opener=lambda name, flags: open_file(path, how))
        self.path = path
        self.end = self.seek(0, os.SEEK_END) if append else 0

    def write(self, data: Any) -> int:
        """Writes all of it at the current position."""
        rest = memoryview(data)
        while rest and not self.closed:
            rest = rest[write(self.fileno(), rest) :]
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return 0 if self.closed else super().seek(offset, whence)

    def tell(self) -> int:
        return self.seek(0, os.SEEK_CUR)

    def sync(self) -> None:
        """Returns when the bytes are on the disk."""
        fsync(self.fileno())

    def cut(self, size: int) -> None:
        """Truncates the file; the next write follows there."""
        self.truncate(size)
        self.seek(size)


def open_file(path: Path, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o666)


def write(descriptor: int, data: memoryview) -> int:
    return os.write(descriptor, data)


def fsync(descriptor: int) -> None:
    os.fsync(descriptor)


def sync(path: Path) -> None:
    """Returns when the bytes of a file are on the disk."""
    descriptor = open_file(path, os.O_RDWR)
    try:
        fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(old: Path, new: Path) -> None:
    os.replace(old, new)


def put(path: Path, data: bytes) -> None:
    """A small file, complete or not at all."""
    with new_file(path) as file:
        file.write(data)


@contextmanager
def new_file(path: Path, part: Path | None = None) -> Iterator[File]:
    """A file that is at its place when the block has ended without an error, complete and on the disk. `part`: where it
    is written before."""
    part = part or path.with_name(f".{path.name}.part")
    file = File(part)
    try:
        yield file
        file.sync()
    finally:
        file.close()
    rename(part, path)


def failed(error: OSError, folder: Path, needed: int | None = None) -> OmniError:
    """The error for a failed write in a run's folder; for a full disk with the bytes that the rest needs."""
    name = str(error.filename or folder)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return write_error(name, error)
    rest = f"about {needed:,} bytes are still needed; " if needed else ""
    return OutputError(
        f"cannot write {name}: no space left",
        cause=f"{rest}{free_bytes(folder):,} bytes are free in {folder}; finished rows are kept",
        hint="free some space and run the same command again",
    )


def free_bytes(folder: Path) -> int:
    """Free bytes where the folder is, or will be."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 1 << 62


class Lock:
    """A folder belongs to one run. A lock that a dead process has left is taken over."""

    def __init__(self, folder: Path, where: str | None = None) -> None:
        """`where`: the name of the output, for the error."""
        self._path, where = folder / LOCK, where or str(folder.parent)
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as error:
            raise failed(error, folder) from None
        try:
            taken = locked(self._descriptor)
            if taken is False or (taken is None and self._owner_lives()):
                raise in_use(where, self._owner())
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(this_process()).encode(), 0)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _owner(self) -> dict[str, Any]:
        try:
            return json_object(os.pread(self._descriptor, 4096, 0))
        except ParseError:  # it has not been written yet
            return {}

    def _owner_lives(self) -> bool:
        """Whether a process of this machine, started since it booted, still holds it."""
        owner, here = self._owner(), this_process()
        if owner and owner.get("host") != here["host"]:
            return True
        same_boot = owner.get("boot") == here["boot"]
        return same_boot and owner.get("pid") != here["pid"] and alive(int(owner.get("pid", 0)))

    def release(self) -> None:
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        with suppress(OSError):
            os.close(self._descriptor)


def locked(descriptor: int) -> bool | None:
    """Takes the lock, which ends with its process; False if another process has it, None if there are no locks here."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return None
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def this_process() -> dict[str, Any]:
    boot = Path("/proc/sys/kernel/random/boot_id")
    return {
        "host": platform.node(),
        "pid": os.getpid(),
        "boot": boot.read_text("ascii").strip() if boot.exists() else "",
    }


def in_use(where: str, owner: dict[str, Any]) -> OutputError:
    """The error for a second run; `where` is the output folder."""
    who = f"process {owner['pid']} on {owner.get('host', 'another machine')}" if owner.get("pid") else "another run"
    return OutputError(
        f"{where} is in use by {who}",
        cause="two runs cannot write into one folder",
        hint="wait for it to end, or choose another folder with -O",
    )
