"""Engines in a process of their own, and the objects that stand for them in the server."""

import itertools
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from omnitts_cli import child
from omnitts_cli.errors import Notice
from omnitts_cli.request import BULK, Request
from omnitts_cli.server import channel
from omnitts_cli.speech import tts
from omnitts_cli.speech.elsewhere import FarEngine
from omnitts_cli.speech.loop import Callback, SpeechEngine, require_process

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


class ProcessEngine(SpeechEngine):
    """A SpeechEngine whose engine is in the other process: its queue and its thread are there. A thread here waits for
    its news.
    """

    def __init__(self, news: socket.socket, inbox: channel.Inbox, calls: socket.socket, about: FarEngine) -> None:
        self._news, self._inbox = news, inbox
        self._calls, self._answers = calls, channel.Inbox(calls)
        self._sending, self._calling = threading.Lock(), threading.Lock()
        self._numbers = itertools.count(1)
        self._queued: set[str] = set()
        self._admitted: dict[str, float] = {}  # requests that have a slot -> since when
        self._heard = time.perf_counter()
        cloner = FarCloner(partial(self._call, "codes"), partial(self._call, "embedding"))
        vector_of = partial(self._call, "vector") if about.vectors else None
        super().__init__(replace(about.model, cloner=cloner, vector_of=vector_of), about.device, about.plan)
        self._thread = threading.Thread(target=self._listen, name="omnitts engine", daemon=True)
        self._thread.start()

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
            self._refuse_closed()
            if not self._callbacks:
                self._heard = time.perf_counter()
            name = f"s{next(self._numbers)}"
            self._callbacks[name] = callback
            if not live:
                self._queued.add(name)
        self._pass_on("submit", replace(request, id=name), live, priority, client)
        return name

    def _end(self) -> None:
        """The engine ends, and its memory is free."""
        self._pass_on("close")
        self._calls.close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _ended(self, name: str) -> Callback | None:
        """Forgets a request and returns its callback. The lock is held."""
        self._queued.discard(name)
        self._admitted.pop(name, None)
        return super()._ended(name)

    def _pass_on(self, call: str, *given: Any) -> None:
        """To the other process."""
        try:
            with self._sending:
                channel.send(self._news, channel.packed((call, *given)))
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
        except BaseException as error:
            self._break(error)

    def _received(self) -> tuple[Any, ...] | None:
        """The next message; None when the engine has been closed. Raises when the process has ended."""
        while not self._inbox.begun and not select.select([self._news], [], [], ASK_S)[0]:
            self._cancel_forgotten()
            if self._callbacks:
                self._pass_on("alive")
        try:
            message: tuple[Any, ...] = self._inbox.receive()
        except (EOFError, OSError):
            if self._closed:
                self._news.close()
                return None
            raise RuntimeError("the process of the engines has ended") from None
        self._cancel_forgotten()
        return message

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
