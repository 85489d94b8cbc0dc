"""Engines in a process of their own, and the objects that stand for them in the server."""

from __future__ import annotations

import itertools
import os
import select
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from omnitts_cli import child
from omnitts_cli.errors import Notice, UsageError
from omnitts_cli.request import BULK, Request
from omnitts_cli.server import channel
from omnitts_cli.speech import tts
from omnitts_cli.speech.elsewhere import FarEngine
from omnitts_cli.speech.loop import Callback, require_process

STDERR = 2
ASK_S = 1.0
"""A process that is silent for this long is asked whether it is alive."""


class Engines:
    """Starts the process, and opens models in it. A process that has ended is replaced at the next opening."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def open(
        self,
        *args: Any,
        tell: Callable[[Notice], None] = lambda notice: None,
        opener: Callable[..., tts.TTS] = tts.load,
        **settings: Any,
    ) -> tts.TTS:
        """Returns the model that `opener` opens with these arguments, in the other process; on Windows, which cannot
        send a socket to a process, in this one.
        """
        if not hasattr(socket, "send_fds"):
            return opener(*args, tell=tell, **settings)
        news, theirs = channel.pair()
        calls, their_calls = channel.pair()
        with theirs, their_calls, self._lock:
            socket.send_fds(self._running(), [b"\0"], [theirs.fileno(), their_calls.fileno()])
        channel.send(news, channel.packed((opener, args, settings)))
        inbox = channel.Inbox(news)
        for kind, given in inbox.messages():
            if kind == "notice":
                tell(given)
            elif kind == "failed":
                raise given
            else:
                return tts.TTS(ProcessEngine(news, inbox, calls, given))
        raise RuntimeError("the process of the engines ended while it opened a model")

    def _running(self) -> socket.socket:
        if self._process is not None and self._process.poll() is None:
            assert self._control is not None
            return self._control
        self.close()
        ours, theirs = channel.pair()
        with theirs:
            self._process = subprocess.Popen(
                child.command("omnitts_cli.server.worker", str(theirs.fileno())),
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=STDERR,
            )  # fmt: skip
        self._control = ours
        return ours

    @property
    def pid(self) -> int | None:
        """The number of the process; None if it is not running."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def close(self, wait_s: float = 5.0) -> None:
        """Ends the process; after this time by force. One that is opening a model notices nothing before it has."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(wait_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = self._control = None


@dataclass(frozen=True)
class FarCloner:
    """Encodes clips in the other process."""

    codes: Callable[[Any], np.ndarray]
    embedding: Callable[[Any], np.ndarray]


class ProcessEngine:
    """A SpeechEngine whose engine is in the other process: its queue and its thread are there. A thread here waits for
    its news.
    """

    def __init__(self, news: socket.socket, inbox: channel.Inbox, calls: socket.socket, about: FarEngine) -> None:
        self._news, self._inbox = news, inbox
        self._calls, self._answers = calls, channel.Inbox(calls)
        self._sending, self._calling, self._lock = threading.Lock(), threading.Lock(), threading.Lock()
        self._numbers = itertools.count(1)
        self._callbacks: dict[str, Callback] = {}  # by request name
        self._queued: set[str] = set()
        self._admitted: dict[str, float] = {}  # requests that have a slot -> since when
        self._forgotten: deque[str] = deque()
        self._heard = time.perf_counter()
        self._broken: BaseException | None = None
        self._closing = False
        self.process = os.getpid()
        self.after_step: Callable[[], None] = lambda: None
        cloner = FarCloner(partial(self._call, "codes"), partial(self._call, "embedding"))
        vector_of = partial(self._call, "vector") if about.vectors else None
        self.model = replace(about.model, cloner=cloner, vector_of=vector_of)
        self.plan, self.device = about.plan, about.device
        self._thread = threading.Thread(target=self._listen, name="omnitts engine", daemon=True)
        self._thread.start()

    @property
    def broken(self) -> BaseException | None:
        """Returns the exception that stopped the engine."""
        return self._broken

    @property
    def queued(self) -> int:
        """Returns how many requests wait for a slot."""
        return len(self._queued)

    @property
    def running(self) -> int:
        """Returns how many requests have a slot."""
        return len(self._admitted)

    def admitted_at(self, name: str) -> float | None:
        """Returns when the request got its slot; None if it still waits, or has ended."""
        return self._admitted.get(name)

    def stuck_s(self) -> float:
        """Returns for how long the process has been silent although it has work."""
        return time.perf_counter() - self._heard if self._callbacks else 0.0

    def submit(
        self, request: Request, callback: Callback, *, live: bool = False, priority: int = BULK, client: str = ""
    ) -> str:
        """Submits a request and returns its name; `callback` is called on the thread that waits for news."""
        require_process(self.process)
        with self._lock:
            if self._closing:
                raise UsageError("this model has been closed", hint="omnitts.load() opens it again")
            if self._broken is not None:
                raise self._broken
            if not self._callbacks:
                self._heard = time.perf_counter()
            name = f"s{next(self._numbers)}"
            self._callbacks[name] = callback
            if not live:
                self._queued.add(name)
        self._send("submit", replace(request, id=name), live, priority, client)
        return name

    def feed(self, name: str, text: str) -> None:
        """More text for a live request."""
        self._send("feed", name, text)

    def finish(self, name: str) -> None:
        """No more text will come for a live request."""
        self._send("finish", name)

    def cancel(self, name: str) -> None:
        """Cancels a request: there are no more callbacks."""
        if os.getpid() != self.process:  # a forked child: the lock may be held for ever
            return
        with self._lock:
            self._ended(name)
        self._send("cancel", name)

    def forget(self, name: str) -> None:
        """Cancels a request when news come, or within a second. For finalizers: it waits for no lock."""
        self._forgotten.append(name)

    def pause(self, name: str) -> None:
        """This request makes no more frames until `resume`."""
        self._send("pause", name)

    def resume(self, name: str) -> None:
        """Lets a paused request go on."""
        self._send("resume", name)

    def close(self) -> None:
        """Cancels everything, and waits until the engine has ended and its memory is free."""
        if os.getpid() != self.process:
            return
        with self._lock:
            self._closing = True
            names = list(self._callbacks)
        for name in names:
            self.cancel(name)
        self._send("close")
        self._calls.close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _ended(self, name: str) -> Callback | None:
        """Forgets a request and returns its callback. The lock is held."""
        self._queued.discard(name)
        self._admitted.pop(name, None)
        return self._callbacks.pop(name, None)

    def _send(self, *message: Any) -> None:
        try:
            with self._sending:
                channel.send(self._news, channel.packed(message))
        except OSError:  # the process has ended; the thread that waits for news sees it too
            pass

    def _call(self, name: str, given: Any) -> np.ndarray:
        try:
            with self._calling:
                channel.send(self._calls, channel.packed((name, given)))
                good, found = self._answers.receive()
        except (OSError, EOFError):
            raise RuntimeError("the process of the engines has ended") from None
        if not good:
            raise found
        return found  # type: ignore[no-any-return]

    # ---- on the thread that waits for news

    def _listen(self) -> None:
        try:
            while (message := self._received()) is not None:
                self._heard = time.perf_counter()
                self._take(*message)
                self.after_step()
        except BaseException as error:  # raised again in the threads that wait for sound
            with self._lock:
                self._broken, callbacks = error, list(self._callbacks.values())
                for name in list(self._callbacks):
                    self._ended(name)
            for callback in callbacks:
                callback(error)
            self.after_step()

    def _received(self) -> tuple[Any, ...] | None:
        """The next message; None when the engine has been closed. Raises when the process has ended."""
        while not self._inbox.begun and not select.select([self._news], [], [], ASK_S)[0]:
            self._cancel_forgotten()
            if self._callbacks:
                self._send("alive")
        try:
            message: tuple[Any, ...] = self._inbox.receive()
        except (EOFError, OSError):
            if self._closing:
                self._news.close()
                return None
            raise RuntimeError("the process of the engines has ended") from None
        self._cancel_forgotten()
        return message

    def _cancel_forgotten(self) -> None:
        while self._forgotten:
            self.cancel(self._forgotten.popleft())

    def _take(self, kind: str, *given: Any) -> None:
        if kind == "broken":
            raise RuntimeError(given[0] + "\n" + given[1])
        if kind != "news":
            return
        admitted, news = given
        with self._lock:
            self._queued.difference_update(admitted)
            self._admitted |= {name: since for name, since in admitted.items() if name in self._callbacks}
        for one in news:
            with self._lock:
                last = getattr(one, "last", True)
                callback = self._ended(one.request) if last else self._callbacks.get(one.request)
            if callback is not None:
                callback(one)
