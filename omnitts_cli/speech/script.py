"""Script: the pieces to be spoken, as they become known: of a text that is all there, or of one still being written."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from omnitts_cli.errors import OmniError

if TYPE_CHECKING:
    from omnitts_cli.text.piece import Piece

PIECES_AHEAD = 256  # of a pipe that writes faster than we speak


class Script(Protocol):
    """Where pieces come from."""

    ended: bool
    """There will be no more."""
    chars: int | None
    """Of the whole text, where it is known."""
    notify: Callable[[], None]
    """Called, in any thread, when a piece has become known."""

    def take(self, wait_s: float) -> Piece | None:
        """Returns the next piece; None when none is known yet."""

    def peek(self, wait_s: float) -> Piece | None:
        """Returns the first piece without taking it, or raises if it is already certain that there is none."""


class Written:
    """A text that is all there. Pieces are cut only when they are asked for."""

    def __init__(self, pieces: Iterator[Piece], chars: int | None) -> None:
        self._pieces = pieces
        self.chars, self.ended = chars, False
        self.notify: Callable[[], None] = lambda: None

    def take(self, wait_s: float) -> Piece | None:
        """Returns the next piece."""
        piece = next(self._pieces, None)
        self.ended = piece is None
        return piece

    def peek(self, wait_s: float) -> Piece | None:
        """Returns the first piece."""
        piece = next(self._pieces, None)
        if piece is not None:
            self._pieces = chain([piece], self._pieces)
        return piece


class Piped:
    """A text that is still being written. A thread reads it, so that speaking never waits for it."""

    def __init__(self, lines: Iterator[list[Piece]]) -> None:
        self.chars: int | None = None
        self.ended = False
        self.notify: Callable[[], None] = lambda: None
        self._first: list[Piece] = []
        self._queue: queue.Queue[Piece | OmniError | None] = queue.Queue(PIECES_AHEAD)
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterator[list[Piece]]) -> None:
        try:
            for pieces in lines:
                for piece in pieces:
                    self._put(piece)
        except OmniError as error:
            self._put(error)
        self._put(None)

    def _put(self, found: Piece | OmniError | None) -> None:
        self._queue.put(found)
        self.notify()

    def take(self, wait_s: float) -> Piece | None:
        """Returns the next piece; None when none has been written within the time."""
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
        """Returns the first piece; None when none has been written within the time."""
        self._first = self._first or [piece for piece in [self.take(wait_s)] if piece]
        return self._first[0] if self._first else None


class Fed:
    """The script of live speech has no pieces of its own; it only says whether it has ended."""

    def __init__(self) -> None:
        self.chars: int | None = None
        self.ended = False
        self.notify: Callable[[], None] = lambda: None

    def take(self, wait_s: float) -> None:
        """Returns nothing."""

    def peek(self, wait_s: float) -> None:
        """Returns nothing."""
