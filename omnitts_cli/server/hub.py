"""Hub: wakes requests on the event loop when the engine has made sound for them, with one wake-up per step."""

import asyncio
from collections import deque


class News(asyncio.Event):
    """The event that a request waits for: sound has arrived, or the client has disconnected."""

    def __init__(self) -> None:
        super().__init__()
        self.marked = False


class Hub:
    """Collects the requests that have news; `flush` wakes them all with one call to the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: deque[News] = deque()

    def mark(self, news: News) -> None:
        """Marks a request to be woken. Called on an engine's thread, which calls `flush` after the step."""
        if not news.marked:
            news.marked = True
            self._ready.append(news)

    def flush(self) -> None:
        """Wakes the marked requests."""
        if self._ready and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        while self._ready:
            news = self._ready.popleft()
            news.marked = False  # before the request reads its chunks, so that no later mark is missed
            news.set()
