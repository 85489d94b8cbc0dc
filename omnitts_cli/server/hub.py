"""Hub: wakes requests on the event loop when the engine has made sound for them; one wake-up for each step."""

from __future__ import annotations

import asyncio
from collections import deque


class Ear(asyncio.Event):
    """What one request waits on."""

    def __init__(self) -> None:
        super().__init__()
        self.marked = False


class Hub:
    """Collects the requests that have news; `flush` wakes them all with one call to the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Ear] = deque()

    def mark(self, ear: Ear) -> None:
        """There is news for this request. Called on an engine's thread, which calls `flush` after the step."""
        if not ear.marked:
            ear.marked = True
            self._ready.append(ear)

    def flush(self) -> None:
        """Wakes the marked requests."""
        if self._ready and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        while self._ready:
            ear = self._ready.popleft()
            ear.marked = False  # before it looks for news, so that none is missed
            ear.set()
