"""Script: the pieces to speak, of a complete text or of one that is still arriving."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

from omnitts_cli.errors import OmniError
from omnitts_cli.text.piece import Piece

PIECES_AHEAD = 256  # pieces buffered if a pipe writes faster than speech is made


class Script:
    """Where pieces come from."""

    def __init__(self, chars: int | None = None, notices: list[str] | None = None) -> None:
        self.chars = chars
        """Characters of the whole text, if known."""
        self.ended = False
        """Whether there are no more pieces."""
        self.notices = [] if notices is None else notices
        """Notices about the text so far; the reader removes those that it has reported."""
        self.notify: Callable[[], None] = lambda: None
        """Called, in any thread, when a new piece is available."""
        self._first: list[Piece] = []

    def take(self, wait_s: float) -> Piece | None:
        """Returns the next piece; None if none arrives within the time."""
        return self._first.pop() if self._first else self._next(wait_s)

    def peek(self, wait_s: float) -> Piece | None:
        """Returns the first piece without taking it; None if none arrives within the time. Raises if there is certainly
        none."""
        self._first = self._first or [piece for piece in [self._next(wait_s)] if piece]
        return self._first[0] if self._first else None

    def _next(self, wait_s: float) -> Piece | None:
        """The next piece; None if there is none yet."""
        return None


class Fed(Script):
    """The script of live speech: it has no pieces and only tracks whether the text has ended."""


class Written(Script):
    """A complete text. Pieces are split off lazily."""

    def __init__(self, pieces: Iterator[Piece], chars: int | None, notices: list[str] | None = None) -> None:
        super().__init__(chars, notices)
        self._pieces = pieces

    def _next(self, wait_s: float) -> Piece | None:
        piece = next(self._pieces, None)
        self.ended = piece is None
        return piece


class Piped(Script):
    """A text that is still arriving. A thread reads it, so that speaking never waits for input."""

    def __init__(self, lines: Iterator[list[Piece]], notices: list[str]) -> None:
        super().__init__(notices=notices)
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

    def _next(self, wait_s: float) -> Piece | None:
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
