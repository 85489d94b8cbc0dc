"""Ahead: makes what is likely to be asked for next, on a thread of its own, while nothing is spoken."""

import threading
from collections.abc import Callable

from omnitts_cli.doors.reader import Utterance

IDLE_S = 0.5
"""Nothing is made until nothing was asked for in so many seconds."""


class Ahead:
    """Calls `make` after a rest. What it makes is ended by `leave`, and begun again after the next rest."""

    def __init__(self, make: Callable[[Utterance], None]) -> None:
        self._make, self._changed = make, threading.Condition()
        self._now: Utterance | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def rest(self) -> None:
        """Nothing is spoken now."""
        self.leave()
        with self._changed:
            if self._closed:
                return
            self._now = Utterance()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="omnitts ahead", daemon=True)
                self._thread.start()
            self._changed.notify()

    def leave(self) -> None:
        """Something will be spoken. Does not wait."""
        with self._changed:
            now, self._now = self._now, None
            self._changed.notify()
        if now is not None:
            now.cut("left")

    def close(self) -> None:
        """Ends it."""
        with self._changed:
            self._closed = True
        self.leave()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        """Makes, whenever there was a rest."""
        while (now := self._rested()) is not None:
            self._make(now)
            with self._changed:
                if self._now is now:
                    self._now = None

    def _rested(self) -> Utterance | None:
        """Waits for the end of a rest; None when it is closed."""
        with self._changed:
            while not self._closed:
                now = self._now
                self._changed.wait(None if now is None else IDLE_S)
                if now is not None and self._now is now:
                    return now
        return None
