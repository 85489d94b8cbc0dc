"""Standard output as a clean channel: descriptor 1 is moved away before anything heavy is imported.

After `claim`, what any library prints lands on stderr; only what is written through `Stdout` reaches
the reader of our output.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import BinaryIO

from omnitts_cli.errors import OutputError

STDOUT, STDERR = 1, 2


class Stdout:
    """The data channel. Before `claim` and after `release` it is descriptor 1 itself."""

    def __init__(self) -> None:
        self._file: BinaryIO | None = None

    def claim(self) -> None:
        """Keeps a copy of descriptor 1 for data and points descriptor 1 at stderr."""
        if self._file is not None:
            return
        try:
            copy = os.dup(STDOUT)
        except OSError:  # closed by the caller, as after `>&-`
            return
        os.set_inheritable(copy, False)
        point_at_stderr()
        self._file = open(copy, "wb", buffering=0)

    def release(self) -> None:
        """Gives descriptor 1 back: for tests that call main() more than once."""
        if self._file is None:
            return
        with suppress(OSError):
            os.dup2(self._file.fileno(), STDOUT)
        self._file.close()
        self._file = None

    @property
    def file(self) -> BinaryIO:
        """The open file for bytes."""
        if self._file is None:
            raise OutputError("cannot write to standard output: it is closed")
        return self._file

    def is_terminal(self) -> bool:
        return self._file is not None and self._file.isatty()

    def line(self, text: str) -> None:
        """One line of text, at once. Names that are no valid text leave as the bytes they were."""
        rest = memoryview((text + "\n").encode("utf-8", "surrogateescape"))
        while rest:
            rest = rest[self.file.write(rest) :]


def point_at_stderr() -> None:
    try:
        os.dup2(STDERR, STDOUT)
    except OSError:  # no stderr either
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, STDOUT)
        os.close(nowhere)
