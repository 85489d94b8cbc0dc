"""Loop: the thread that runs the engine. Any thread may submit requests and gets callbacks with sound."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.errors import UsageError

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import Engine
    from omnitts_cli.request import Failed, Request

Hear = Callable[[Any], None]
"""Called with the chunks of one request, a Failed, or the exception that stopped the engine. Must not block."""


class Loop:
    """The engine's queue and its thread.

    The engine gets as many requests as it has slots; the others wait here, urgent ones first. A caller that streams
    therefore waits for one free slot at most, however much was submitted in bulk before.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._hear: dict[str, Hear] = {}  # by request name, of requests that were not cancelled
        self._waiting: list[tuple[bool, int, Request]] = []  # a heap
        self._running: set[str] = set()  # requests in the engine that may need a slot
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._broken: BaseException | None = None
        self._closed = False

    def submit(self, request: Request, hear: Hear, *, live: bool = False, urgent: bool = False) -> str:
        """Submits a request and returns its name; `hear` is called on the loop's thread."""
        with self._lock:
            if self._closed:
                raise UsageError("this model has been closed", hint="omnitts.load() opens it again")
            if self._broken is not None:
                raise self._broken
            number = next(self._numbers)
            request = replace(request, id=f"s{number}")
            self._hear[request.id] = hear
            if live:  # it needs no slot while it waits for its first words, so it does not count
                self.engine.submit(request, live=True)
            else:
                heapq.heappush(self._waiting, (not urgent, number, request))
                self._admit()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="omnitts engine", daemon=True)
                self._thread.start()
        self._wake.set()
        return request.id

    def feed(self, name: str, text: str) -> None:
        """More text for a live request."""
        self.engine.feed(name, text)

    def finish(self, name: str) -> None:
        """No more text will come for a live request."""
        self.engine.finish(name)

    def cancel(self, name: str) -> None:
        """Cancels a request: there are no more callbacks, and the slot is free by the next frame."""
        with self._lock:
            self._hear.pop(name, None)
            self._waiting = [entry for entry in self._waiting if entry[2].id != name]
            heapq.heapify(self._waiting)
        self.engine.cancel(name)

    def close(self) -> None:
        """Cancels everything and ends the thread."""
        with self._lock:
            self._closed = True
            names = list(self._hear)
        for name in names:
            self.cancel(name)
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    # ---- on the loop's thread

    def _run(self) -> None:
        try:
            while not self._closed or self.engine.busy:
                if self.engine.busy:
                    for news in self.engine.step():
                        self._deliver(news)
                else:
                    self._check()
                    self._wake.wait()
                    self._wake.clear()
        except BaseException as error:  # raised again in the threads that wait for sound
            with self._lock:
                self._broken, listeners = error, list(self._hear.values())
                self._hear.clear()
            for hear in listeners:
                hear(error)

    def _check(self) -> None:
        """An idle engine has finished everything that it was given."""
        with self._lock:
            if self._running and not self.engine.busy:
                raise RuntimeError(f"the engine has lost {', '.join(sorted(self._running))}")

    def _deliver(self, news: Chunk | Failed) -> None:
        last = not isinstance(news, Chunk) or news.last
        with self._lock:
            hear = self._hear.pop(news.request, None) if last else self._hear.get(news.request)
            if last:
                self._running.discard(news.request)
                self._admit()
        if hear is not None:
            hear(news)

    def _admit(self) -> None:
        """Hands waiting requests to the engine while it has slots. The lock is held."""
        while self._waiting and len(self._running) < self.engine.plan.slots:
            request = heapq.heappop(self._waiting)[2]
            self._running.add(request.id)
            self.engine.submit(request)
