"""Whether an Ogg file is whole. Its last page is marked; a library takes a file that was cut off as a shorter one."""

from __future__ import annotations

import os
from typing import BinaryIO

LONGEST_PAGE = 65_307
LAST_PAGE = 0x04
FLAGS_AT = 5


def is_whole(file: BinaryIO) -> bool:
    """True where the last page says that it is the last. Leaves the file at its start."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - LONGEST_PAGE))
    tail = file.read()
    file.seek(0)
    page = tail.rfind(b"OggS")
    return page >= 0 and len(tail) > page + FLAGS_AT and bool(tail[page + FLAGS_AT] & LAST_PAGE)
