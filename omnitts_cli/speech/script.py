"""Script: the pieces to speak, of a complete text or of one that is still arriving."""

import queue
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

from omnitts_cli.errors import OmniError
from omnitts_cli.text.piece import Piece

PIECES_AHEAD = 256  # pieces buffered if a pipe writes faster than speech is made


class Script(Protocol):
    """Where pieces come from."""

    ended: bool
    """Whether there are no more pieces."""
    chars: int | None
    """Characters of the whole text, if known."""
    notify: Callable[[], None]
    """Called, in any thread, when a new piece is available."""
    notices: list[str]
    """Notices about the text so far; the reader removes those that it has reported."""

    def take(self, wait_s: float) -> Piece | None:
        """Returns the next piece; None if there is none yet."""

    def peek(self, wait_s: float) -> Piece | None:
        """Returns the first piece without taking it, or raises if there is certainly none."""


class Written:
    """A complete text. Pieces are split off lazily."""

    def __init__(self, pieces: Iterator[Piece], chars: int | None, notices: list[str] | None = None) -> None:
        self._pieces = pieces
        self.chars, self.ended = chars, False
        self.notices = [] if notices is None else notices
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
    """A text that is still arriving. A thread reads it, so that speaking never waits for input."""

    def __init__(self, lines: Iterator[list[Piece]], notices: list[str]) -> None:
        self.chars: int | None = None
        self.ended = False
        self.notices = notices
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
        """Returns the next piece; None if none arrives within the time."""
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
        """Returns the first piece; None if none arrives within the time."""
        self._first = self._first or [piece for piece in [self.take(wait_s)] if piece]
        return self._first[0] if self._first else None


class Fed:
    """The script of live speech: it has no pieces and only tracks whether the text has ended."""

    def __init__(self) -> None:
        self.chars: int | None = None
        self.ended = False
        self.notices: list[str] = []
        self.notify: Callable[[], None] = lambda: None

    def take(self, wait_s: float) -> None:
        """Returns nothing."""

    def peek(self, wait_s: float) -> None:
        """Returns nothing."""
