"""Inbox: calls of other threads to the engine, and the wake-up for them.

Calls are added and awaited under one lock, so no wake-up can be missed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Call = Callable[[], None]


class Inbox:
    """A queue of functions that the engine's thread will call."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()
        self._added = threading.Condition()
        self.sleeping = False  # the engine waits for a call

    def put(self, call: Call) -> None:
        """Add a call and wake the engine if it sleeps."""
        with self._added:
            self._calls.append(call)
            self._added.notify()

    def take(self, wait: bool) -> list[Call]:
        """All calls so far; with `wait`, sleeps until there is one."""
        with self._added:
            self.sleeping = wait and not self._calls
            while wait and not self._calls:
                self._added.wait()
            self.sleeping = False
            calls = list(self._calls)
            self._calls.clear()
        return calls

    def __bool__(self) -> bool:
        with self._added:
            return bool(self._calls)
