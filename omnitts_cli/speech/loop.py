"""SpeechEngine: what can speak. Loop: an engine in a thread of this process, the only place that steps one.

A model in a process of its own is `server/engines.py:ProcessEngine`, one behind a URL `speech/remote.py:RemoteEngine`.
"""

import os
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.errors import DeviceError, UsageError
from omnitts_cli.request import BULK, Failed, Request

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import Engine

yield_core: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))

Callback = Callable[[Any], None]
"""Called with the chunks of one request, a Failed, or the exception that stopped the engine. Must not block."""


class SpeechEngine(ABC):
    """What can speak: any thread may submit requests and gets callbacks with sound. Loop, ProcessEngine and
    RemoteEngine are such engines; model, device and plan are what is known here of one that is elsewhere.
    """

    broken: BaseException | None = None
    """The exception that stopped the engine."""

    def __init__(self, model: Any, device: Any, plan: Any) -> None:
        self.model, self.device, self.plan = model, device, plan
        self.process = os.getpid()
        """The number of the process that opened it; it speaks in no other."""
        self.after_step: Callable[[], None] = lambda: None
        """Called on the thread of the callbacks when those of a step, or of a failure, are done."""
        self._lock, self._closed = threading.Lock(), False
        self._callbacks: dict[str, Callback] = {}  # by request name, of requests that were not cancelled
        self._forgotten: deque[str] = deque()  # requests to cancel, named by finalizers

    @property
    @abstractmethod
    def queued(self) -> int:
        """Returns how many requests wait for a slot."""

    @property
    @abstractmethod
    def running(self) -> int:
        """Returns how many requests have a slot."""

    @abstractmethod
    def admitted_at(self, name: str) -> float | None:
        """Returns when the request got its slot; None if it still waits, or has ended."""

    @abstractmethod
    def stuck_s(self) -> float:
        """Returns for how long the engine has not answered although it has work."""

    @abstractmethod
    def submit(
        self, request: Request, callback: Callback, *, live: bool = False, priority: int = BULK, client: str = ""
    ) -> str:
        """Submits a request and returns its name; `callback` is called on a thread of the engine."""

    @abstractmethod
    def _pass_on(self, call: str, *given: Any) -> None:
        """Makes a call where the engine is: feed, finish, pause, resume or cancel, with the name of a request."""

    @abstractmethod
    def _end(self) -> None:
        """Ends what runs, once everything is cancelled."""

    def feed(self, name: str, text: str) -> None:
        """More text for a live request."""
        self._pass_on("feed", name, text)

    def finish(self, name: str) -> None:
        """No more text will come for a live request."""
        self._pass_on("finish", name)

    def pause(self, name: str) -> None:
        """Pauses a request, for a slow listener: it keeps its slot but makes no frames until `resume`."""
        self._pass_on("pause", name)

    def resume(self, name: str) -> None:
        """Resumes a paused request."""
        self._pass_on("resume", name)

    def cancel(self, name: str) -> None:
        """Cancels a request: there are no more callbacks, and the slot is free by the next frame."""
        if os.getpid() != self.process:  # a forked child: the lock may be held for ever
            return
        with self._lock:
            self._ended(name)
        self._pass_on("cancel", name)

    def forget(self, name: str) -> None:
        """Cancels a request soon. For finalizers: they may interrupt a thread that holds any lock, so they must not
        wait for one.
        """
        self._forgotten.append(name)

    def close(self) -> None:
        """Cancels everything and ends; no more requests are taken."""
        if os.getpid() != self.process:
            return
        with self._lock:
            self._closed, names = True, list(self._callbacks)
        for name in names:
            self.cancel(name)
        self._end()

    def _ended(self, name: str) -> Callback | None:
        """Forgets a request and returns its callback. The lock is held."""
        return self._callbacks.pop(name, None)

    def _refuse_closed(self) -> None:
        """Raises for a request to an engine that takes no more. The lock is held."""
        if self._closed:
            raise UsageError("this model has been closed", hint="omnitts.load() opens it again")
        if self.broken is not None:
            raise self.broken

    def _cancel_forgotten(self) -> None:
        while self._forgotten:
            self.cancel(self._forgotten.popleft())

    def _break(self, error: BaseException) -> None:
        """The engine has stopped: the error is raised again in the threads that wait for sound."""
        with self._lock:
            self.broken, callbacks = error, [self._ended(name) for name in list(self._callbacks)]
        for callback in callbacks:
            if callback is not None:
                callback(error)
        self.after_step()


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


class Loop(SpeechEngine):
    """An engine and the thread that steps it."""

    _thread: threading.Thread | None = None
    _step_began: float | None = None

    def __init__(self, engine: "Engine") -> None:
        super().__init__(engine.model, engine.device, engine.plan)
        self.engine, self._wake = engine, threading.Event()

    @property
    def queued(self) -> int:
        """Returns how many requests wait for a slot."""
        return self.engine.queued

    @property
    def running(self) -> int:
        """Returns how many requests have a slot."""
        return len(self.engine.admitted)

    def admitted_at(self, name: str) -> float | None:
        """Returns when the request got its slot; None if it still waits, or has ended."""
        return self.engine.admitted.get(name)

    def stuck_s(self) -> float:
        """Returns how long the engine's current step has been running; 0 while it sleeps."""
        began = self._step_began
        return 0.0 if began is None or self.engine.sleeping else time.perf_counter() - began

    def submit(
        self, request: Request, callback: Callback, *, live: bool = False, priority: int = BULK, client: str = ""
    ) -> str:
        """Submits a request and returns its name; `callback` is called on the loop's thread."""
        require_process(self.process)
        with self._lock:  # until the callback is known
            self._refuse_closed()
            name = self.engine.submit(request, live=live, priority=priority, client=client)
            self._callbacks[name] = callback
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="omnitts engine", daemon=True)
                self._thread.start()
        self._wake.set()
        return name

    def _pass_on(self, call: str, *given: Any) -> None:
        """To the engine, which takes calls of any thread."""
        getattr(self.engine, call)(*given)

    def _end(self) -> None:
        """The thread ends."""
        self._wake.set()
        if self._thread not in (None, threading.current_thread()):
            wait_for([self._thread])

    # ---- on the loop's thread

    def _run(self) -> None:
        try:
            while not self._closed or self.engine.busy:
                self._cancel_forgotten()
                if self.engine.busy:
                    self._step_began = time.perf_counter()
                    made = self.engine.step()
                    for news in made:
                        self._deliver(news)
                    self._step_began = None
                    self.after_step()
                    if any(isinstance(news, Chunk) and not news.index for news in made):
                        yield_core()  # else who sends it may wait on this core until the next frame is done
                else:
                    self._check()
                    self._wake.wait()
                    self._wake.clear()
        except BaseException as error:
            self._break(error)

    def _check(self) -> None:
        """An idle engine has finished everything that it was given."""
        with self._lock:
            if self._callbacks and not self.engine.busy:
                raise RuntimeError(f"the engine has lost {', '.join(sorted(self._callbacks))}")

    def _deliver(self, news: Chunk | Failed) -> None:
        last = not isinstance(news, Chunk) or news.last
        with self._lock:
            callback = self._callbacks.pop(news.request, None) if last else self._callbacks.get(news.request)
        if callback is not None:
            callback(news)
