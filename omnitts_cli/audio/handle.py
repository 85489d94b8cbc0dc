"""Handle: a file as libsndfile may hold it. Calls come from C, where an exception would be printed and lost."""

import os
from typing import BinaryIO


class Handle:
    """Reads and seeks without ever raising; `error` keeps what went wrong. `patches` stand for bytes of the file."""

    def __init__(self, file: BinaryIO, patches: dict[int, bytes] | None = None) -> None:
        self._file = file
        self._patches = patches or {}
        self.error: OSError | None = None

    def read(self, size: int = -1) -> bytes:
        try:
            start = self._file.tell()
            data = self._file.read(size)
        except OSError as error:
            self.error = self.error or error
            return b""
        return self._patched(data, start) if start < max(self._patches, default=0) + 4 else data

    def _patched(self, data: bytes, start: int) -> bytes:
        changed = bytearray(data)
        for at, patch in self._patches.items():
            for offset, byte in enumerate(patch, at - start):
                if 0 <= offset < len(changed):
                    changed[offset] = byte
        return bytes(changed)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        try:
            return self._file.seek(offset, whence)
        except (OSError, ValueError):  # damaged files send the library to places before the start
            return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()
