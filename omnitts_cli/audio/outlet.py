"""Outlet: writes bytes to a file, a pipe or a file object, and turns write errors into messages."""

import errno
import os
import select
import shutil
import stat
from pathlib import Path
from typing import BinaryIO, Protocol

from omnitts_cli.errors import OmniError, OutputError


class RawFile(Protocol):
    """What an outlet needs of a file object."""

    def write(self, data: bytes, /) -> int | None: ...


class Outlet:
    """Writes every byte or raises. `name` is the target as the user typed it.

    If the target cannot seek, corrections of earlier bytes (such as the length in a header) are
    dropped, and only appended bytes are written. libsndfile calls `write` from C, which swallows
    exceptions; so the first one is kept in `error`, and `check` raises it.
    """

    def __init__(self, file: RawFile | BinaryIO, name: str, *, seekable: bool | None = None) -> None:
        self.file, self.name = file, name
        self.seekable = can_seek(file) if seekable is None else seekable
        self.error: BaseException | None = None
        self.sent = 0  # bytes written
        self._base = file.tell() if self.seekable else 0  # type: ignore[union-attr]
        self._position = 0
        self._held: bytearray | None = None

    def hold(self) -> None:
        """On a pipe, keeps what is written until `release`, so that it leaves in one write."""
        if not self.seekable:
            self._held = bytearray()

    def release(self, at_least: int = 0) -> None:
        """Writes what is held if it is enough; from then on, everything is written at once."""
        held = self._held
        if held is None or len(held) < at_least:
            return
        self._held = None
        try:
            self._write_all(memoryview(bytes(held)))
        except BaseException as error:
            self.error = error
        self.check()

    def write(self, data: bytes) -> int:
        """Writes all of `data` at the current position."""
        size = len(data)
        if self.error is not None or (not self.seekable and self._position != self.sent):
            self._position += size
            return size
        try:
            self._write_all(memoryview(data).cast("B"))
        except BaseException as error:
            self.error = error
        else:
            self.sent = max(self.sent, self._position + size)
        self._position += size
        return size

    def _write_all(self, rest: memoryview) -> None:
        if self._held is not None:
            self._held += rest
            return
        while rest:
            count = self.file.write(rest)  # type: ignore[arg-type]
            if count is None:  # a non-blocking pipe that is full
                select.select([], [self.file.fileno()], [])  # type: ignore[union-attr]
                continue
            rest = rest[count:]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Seeks; on a pipe, only the position is remembered."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.sent}[whence]
        self._position = start + offset
        if self.seekable and not getattr(self.file, "closed", False):  # an encoder that failed still ends its file
            self.file.seek(self._base + self._position)  # type: ignore[union-attr]
        return self._position

    def tell(self) -> int:
        return self._position

    def check(self) -> None:
        """Raises what went wrong since the last check: BrokenPipeError as it is, the rest as OutputError."""
        error, self.error = self.error, None
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise write_error(self.name, error, self.sent) from error
        if error is not None:
            raise error


def can_seek(file: object) -> bool:
    """True where an earlier byte can be corrected: no pipe, no terminal, no file opened for appending."""
    seekable = getattr(file, "seekable", None)
    if seekable is None or not seekable():
        return False
    try:
        descriptor = file.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return True
    return stat.S_ISREG(os.fstat(descriptor).st_mode) and not appends(descriptor)


def appends(descriptor: int) -> bool:
    """Whether every write goes to the end whatever the position, as after `>>` in a shell."""
    try:
        import fcntl
    except ImportError:
        return False
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND)


STDOUT = "standard output"  # the name of a target that has no path
LARGE = (".wav", ".wave", ".raw", ".pcm", ".flac")

REASONS = {
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "the file system is read-only",
    errno.ENOENT: "its folder does not exist",
    errno.ENOTDIR: "a part of its path is not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ENOSPC: "no space left",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than allowed",
    errno.EIO: "the device reported an error",
    errno.ELOOP: "too many symbolic links lead to each other",
    errno.ENXIO: "no process is reading from it",
}


def write_error(name: str, error: OSError, written: int = 0) -> OmniError:
    """The error for a failed open, write, sync or rename of `name`."""
    reason = REASONS.get(error.errno or 0, (error.strerror or str(error)).lower())
    cause, hint = None, None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        cause = f"{written:,} bytes were written{free_bytes(name)}"
        hint = "send it to a file on another disk" if name == STDOUT else "free some space or choose another folder"
        if name == STDOUT or name.lower().endswith(LARGE):
            hint += "; -F opus needs about a tenth of wav"
    elif error.errno == errno.ENOENT:
        folder = os.path.dirname(name) or "."
        if os.path.isdir(folder):  # such as /proc
            reason, hint = f"no file can be created in {folder}", "choose another folder"
        else:
            hint = f"mkdir -p {folder}"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and name != STDOUT:
        hint = "choose another folder"
    return OutputError(f"cannot write {name}: {reason}", cause=cause, hint=hint)


def make_folder(folder: Path, hint: str = "choose another folder", *, private: bool = False) -> None:
    """Creates a folder if it is missing; `private`: for this user only. `hint`: what to do if that fails."""
    try:
        folder.mkdir(0o700 if private else 0o777, parents=True, exist_ok=True)
    except OSError as error:
        reason = REASONS.get(error.errno or 0, (error.strerror or str(error)).lower())
        raise OutputError(f"cannot make the folder {folder}: {reason}", hint=hint) from None


def free_bytes(name: str) -> str:
    """The free space beside `name`, as the rest of a sentence; nothing for a stream or a device such as /dev/full."""
    folder = os.path.dirname(os.path.abspath(name))
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return ""
    return "" if name == STDOUT or folder == "/dev" else f"; {free:,} bytes are free in {folder}"
