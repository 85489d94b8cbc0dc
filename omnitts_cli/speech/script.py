"""Script: the pieces to be spoken, as they become known: of a text that is all there, or of one still being written."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from omnitts_cli.errors import OmniError

if TYPE_CHECKING:
    from omnitts_cli.text.piece import Piece

PIECES_AHEAD = 256  # of a pipe that writes faster than we speak


class Script(Protocol):
    """`take` gives the next piece; None when none is known yet. `ended`: there will be no more.

    `peek` gives the first piece without taking it, or raises if it is already certain that there is
    nothing to speak.
    """

    ended: bool
    chars: int | None  # of the whole text, where it is known

    def take(self, wait_s: float) -> Piece | None: ...

    def peek(self, wait_s: float) -> Piece | None: ...


class Written:
    """A text that is all there. Pieces are cut only when they are asked for."""

    def __init__(self, pieces: Iterator[Piece], chars: int | None) -> None:
        self._pieces = pieces
        self.chars, self.ended = chars, False

    def take(self, wait_s: float) -> Piece | None:
        piece = next(self._pieces, None)
        self.ended = piece is None
        return piece

    def peek(self, wait_s: float) -> Piece | None:
        piece = next(self._pieces, None)
        if piece is not None:
            self._pieces = chain([piece], self._pieces)
        return piece


class Piped:
    """A text that is still being written. A thread reads it, so that speaking never waits for it."""

    def __init__(self, lines: Iterator[list[Piece]]) -> None:
        self.chars: int | None = None
        self.ended = False
        self._first: list[Piece] = []
        self._queue: queue.Queue[Piece | OmniError | None] = queue.Queue(PIECES_AHEAD)
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterator[list[Piece]]) -> None:
        try:
            for pieces in lines:
                for piece in pieces:
                    self._queue.put(piece)
        except OmniError as error:
            self._queue.put(error)
        self._queue.put(None)

    def take(self, wait_s: float) -> Piece | None:
        if self._first:
            return self._first.pop()
        if self.ended:
            return None
        try:
            found = self._queue.get(timeout=wait_s) if wait_s else self._queue.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, OmniError):
            self.ended = True
            raise found
        self.ended = found is None
        return found

    def peek(self, wait_s: float) -> Piece | None:
        self._first = [piece for piece in [self.take(wait_s)] if piece]
        return self._first[0] if self._first else None


class Heard:
    """The script of live speech has no pieces of its own; it only says whether it has ended."""

    def __init__(self) -> None:
        self.chars: int | None = None
        self.ended = False

    def take(self, wait_s: float) -> None:
        return None

    def peek(self, wait_s: float) -> None:
        return None
