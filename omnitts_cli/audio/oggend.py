"""Whether an Ogg file is complete: its last page is marked. libsndfile reads a truncated file as a shorter one."""

import os
from typing import BinaryIO

LONGEST_PAGE = 65_307
HEAD_BYTES = 27  # of a page, before the table of its segments
LAST_PAGE = 0x04


def is_whole(file: BinaryIO) -> bool:
    """True if the last page is complete and marked as the last. Leaves the file at its start."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - LONGEST_PAGE))
    tail = file.read()
    file.seek(0)
    page = tail[max(0, tail.rfind(b"OggS")) :]
    if len(page) < HEAD_BYTES or not page[5] & LAST_PAGE:
        return False
    table = page[HEAD_BYTES : HEAD_BYTES + page[26]]
    return len(table) == page[26] and len(page) >= HEAD_BYTES + len(table) + sum(table)
