"""Files: reads a file that someone else may have made, without waiting for a pipe or reading a device without end."""

import errno
import os
import stat
from os import PathLike

READ_BYTES = 1 << 20
SMALL = 64 << 10  # bytes of a file with a line or two, such as a key
LARGE = 64 << 20  # of a text or a table that a person made


def read(path: str | PathLike[str], most: int, *, pipes: bool = False) -> bytes:
    """The bytes of a regular file with at most `most` of them; OSError for anything else. /dev/null is an empty file.

    With `pipes`, for files that the user has named: also of a pipe, until the other side closes it.
    """
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
    if not pipes:
        flags |= getattr(os, "O_NONBLOCK", 0)  # a pipe without a writer is opened at once, and refused below
    descriptor = os.open(path, flags)
    try:
        require_regular(descriptor, path, pipes)
        parts, size = [], 0
        while data := os.read(descriptor, min(READ_BYTES, most + 1 - size)):
            parts.append(data)
            size += len(data)
            if size > most:
                raise OSError(errno.EFBIG, f"it is larger than {readable(most)}", str(path))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_text(path: str | PathLike[str], most: int, *, pipes: bool = False) -> str:
    """The same as text in UTF-8, with every kind of line end as a newline; UnicodeDecodeError for other bytes."""
    text = read(path, most, pipes=pipes).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def require_regular(descriptor: int, path: str | PathLike[str], pipes: bool) -> None:
    """Raises OSError for anything but a regular file."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode)):
        return
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder", str(path))
    if not (stat.S_ISCHR(mode) and os.path.realpath(path) == os.devnull):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def readable(size: int) -> str:
    """A limit in words; all limits are whole KiB."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
