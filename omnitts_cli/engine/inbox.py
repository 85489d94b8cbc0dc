"""Inbox: what other threads ask of the engine, and the wake-up that belongs to it.

Everything is appended and awaited under one lock, so that no wake-up can be missed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Ask = Callable[[], None]


class Inbox:
    def __init__(self) -> None:
        self._asks: deque[Ask] = deque()
        self._news = threading.Condition()

    def put(self, ask: Ask) -> None:
        with self._news:
            self._asks.append(ask)
            self._news.notify()

    def take(self, wait: bool) -> list[Ask]:
        """Everything asked so far; with `wait`, sleeps until there is something."""
        with self._news:
            while wait and not self._asks:
                self._news.wait()
            asks = list(self._asks)
            self._asks.clear()
        return asks

    def __bool__(self) -> bool:
        with self._news:
            return bool(self._asks)
