"""Loop: the thread that runs the engine. Any thread may submit requests and gets callbacks with sound."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.errors import DeviceError, UsageError
from omnitts_cli.request import Failed, Request

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import Engine

FIRST_SOUND, STREAMING, BULK = range(3)
"""Priorities: a listener who has no sound yet, one who has, and work that no one listens to as it is made."""


def wait_for(threads: Iterable[threading.Thread], most_s: float = threading.TIMEOUT_MAX) -> None:
    """Waits until the threads end, for `most_s` in all. Skips threads that were never started."""
    until = time.monotonic() + most_s
    for thread in threads:
        if thread.is_alive():
            thread.join(timeout=max(until - time.monotonic(), 0.0))


def require_process(number: int) -> None:
    """Raises in a forked child: the threads of the parent, and its device, are not there."""
    if os.getpid() != number:
        raise DeviceError("this model was opened in another process, not in this one", hint="load() in the child")


class FairQueue:
    """The highest priority first; within it one client after the other; within a client in order of arrival."""

    def __init__(self) -> None:
        self._levels: dict[int, OrderedDict[str, deque[Request]]] = {
            level: OrderedDict() for level in (FIRST_SOUND, STREAMING, BULK)
        }
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, request: Request, priority: int, client: str) -> None:
        """Adds a request of a client."""
        self._levels[priority].setdefault(client, deque()).append(request)
        self._count += 1

    def pop(self) -> Request:
        """Removes and returns the next request."""
        clients = next(clients for clients in self._levels.values() if clients)
        client, requests = clients.popitem(last=False)
        request = requests.popleft()
        if requests:
            clients[client] = requests  # at the end: the other clients come first
        self._count -= 1
        return request

    def remove(self, name: str) -> None:
        """Removes the request of that name, if it is still here."""
        for clients in self._levels.values():
            for client, requests in list(clients.items()):
                kept = deque(request for request in requests if request.id != name)
                if len(kept) < len(requests):
                    self._count -= 1
                    if kept:
                        clients[client] = kept
                    else:
                        del clients[client]
                    return


Callback = Callable[[Any], None]
"""Called with the chunks of one request, a Failed, or the exception that stopped the engine. Must not block."""


class Loop:
    """The engine's queue and its thread.

    The engine gets as many requests as it has slots; the others wait here, by priority and in turn for each client. A
    caller that streams therefore waits for one free slot at most, however much was submitted in bulk before.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._callbacks: dict[str, Callback] = {}  # by request name, of requests that were not cancelled
        self._waiting = FairQueue()
        self._running: dict[str, float] = {}  # requests in the engine that may need a slot -> since when
        self._forgotten: deque[str] = deque()  # requests to cancel, named by finalizers
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._broken: BaseException | None = None
        self._closed = False
        self._step_began: float | None = None
        self.after_step: Callable[[], None] = lambda: None
        """Called on the loop's thread when the callbacks of a step, or of a failure, are done."""

    @property
    def broken(self) -> BaseException | None:
        """Returns the exception that stopped the engine."""
        return self._broken

    @property
    def queued(self) -> int:
        """Returns how many requests wait for a slot."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Returns how many requests have a slot, or are about to get one."""
        return len(self._running)

    def admitted_at(self, name: str) -> float | None:
        """Returns when the engine got the request; None if it still waits, or has ended."""
        return self._running.get(name)

    def stuck_s(self) -> float:
        """Returns how long the engine's current step has been running; 0 while it sleeps."""
        began = self._step_began
        return 0.0 if began is None or self.engine.sleeping else time.perf_counter() - began

    def submit(
        self, request: Request, callback: Callback, *, live: bool = False, priority: int = BULK, client: str = ""
    ) -> str:
        """Submits a request and returns its name; `callback` is called on the loop's thread."""
        require_process(self.process)
        with self._lock:
            if self._closed:
                raise UsageError("this model has been closed", hint="omnitts.load() opens it again")
            if self._broken is not None:
                raise self._broken
            number = next(self._numbers)
            request = replace(request, id=f"s{number}")
            self._callbacks[request.id] = callback
            if live:  # it needs no slot while it waits for its first words, so it does not count
                self.engine.submit(request, live=True)
            else:
                self._waiting.push(request, priority, client)
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
        if os.getpid() != self.process:  # a forked child: the lock may be held for ever
            return
        with self._lock:
            self._callbacks.pop(name, None)
            self._waiting.remove(name)
        self.engine.cancel(name)

    def forget(self, name: str) -> None:
        """Cancels a request at the next step. For finalizers: they may interrupt a thread that holds any lock, so they
        must not wait for one.
        """
        self._forgotten.append(name)

    def pause(self, name: str) -> None:
        """Pauses a request, for a slow listener: it keeps its slot but makes no frames until `resume`."""
        self.engine.pause(name)

    def resume(self, name: str) -> None:
        """Resumes a paused request."""
        self.engine.resume(name)

    def cancel_all(self) -> None:
        """Cancels everything; no more requests are taken."""
        with self._lock:
            self._closed = True
            names = list(self._callbacks)
        for name in names:
            self.cancel(name)

    def close(self) -> None:
        """Cancels everything and ends the thread."""
        if os.getpid() != self.process:
            return
        self.cancel_all()
        self._wake.set()
        if self._thread not in (None, threading.current_thread()):
            wait_for([self._thread])

    # ---- on the loop's thread

    def _run(self) -> None:
        try:
            while not self._closed or self.engine.busy:
                while self._forgotten:
                    self.cancel(self._forgotten.popleft())
                if self.engine.busy:
                    self._step_began = time.perf_counter()
                    for news in self.engine.step():
                        self._deliver(news)
                    self._step_began = None
                    self.after_step()
                else:
                    self._check()
                    self._wake.wait()
                    self._wake.clear()
        except BaseException as error:  # raised again in the threads that wait for sound
            with self._lock:
                self._broken, callbacks = error, list(self._callbacks.values())
                self._callbacks.clear()
            for callback in callbacks:
                callback(error)
            self.after_step()

    def _check(self) -> None:
        """An idle engine has finished everything that it was given."""
        with self._lock:
            if self._running and not self.engine.busy:
                raise RuntimeError(f"the engine has lost {', '.join(sorted(self._running))}")

    def _deliver(self, news: Chunk | Failed) -> None:
        last = not isinstance(news, Chunk) or news.last
        with self._lock:
            callback = self._callbacks.pop(news.request, None) if last else self._callbacks.get(news.request)
            if last:
                self._running.pop(news.request, None)
                self._admit()
        if callback is not None:
            callback(news)

    def _admit(self) -> None:
        """Hands waiting requests to the engine while it has slots. The lock is held."""
        while self._waiting and len(self._running) < self.engine.plan.slots:
            request = self._waiting.pop()
            self._running[request.id] = time.perf_counter()
            self.engine.submit(request)
