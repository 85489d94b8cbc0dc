"""Engines in a process of their own, and the objects that stand for them in the server."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from omnitts_cli import child
from omnitts_cli.errors import Notice
from omnitts_cli.request import Request
from omnitts_cli.server import channel
from omnitts_cli.speech import tts
from omnitts_cli.speech.loop import Loop

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
        """Returns the model that `opener` opens with these arguments, in the other process."""
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
                engine: Any = ProcessEngine(news, inbox, calls, given)
                return tts.TTS(engine, loop=ProcessLoop(engine))
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


class ProcessEngine:
    """An engine in the other process, with the methods that `Loop` and the server call."""

    sleeping = False

    def __init__(self, news: socket.socket, inbox: channel.Inbox, calls: socket.socket, about: dict[str, Any]) -> None:
        self._news, self._inbox = news, inbox
        self._calls, self._answers = calls, channel.Inbox(calls)
        self._sending, self._calling = threading.Lock(), threading.Lock()
        self._requests: set[str] = set()
        self._heard = time.perf_counter()
        self._closing = self._ended = False
        cloner = SimpleNamespace(codes=partial(self._call, "codes"), embedding=partial(self._call, "embedding"))
        self.model = SimpleNamespace(
            **about["model"], facts=SimpleNamespace(**about["facts"]), cloner=cloner,
            vector_of=partial(self._call, "vector") if about["vectors"] else None,
        )  # fmt: skip
        self.plan = SimpleNamespace(slots=about["slots"], frames=about["frames"])
        self.device = SimpleNamespace(**about["device"], synchronize=lambda: None)

    # ---- from any thread

    def submit(self, request: Request, *, live: bool = False) -> str:
        """Queues a request, which has a name."""
        if not self._requests:
            self._heard = time.perf_counter()
        self._requests.add(request.id)
        self._send("submit", request, live)
        return request.id

    def feed(self, name: str, text: str) -> None:
        """More text for a live request."""
        self._send("feed", name, text)

    def finish(self, name: str) -> None:
        """No more text will come for a live request."""
        self._send("finish", name)

    def cancel(self, name: str) -> None:
        """Stops a request."""
        self._send("cancel", name)

    def pause(self, name: str) -> None:
        """This request makes no more frames until `resume`."""
        self._send("pause", name)

    def resume(self, name: str) -> None:
        """Lets a paused request go on."""
        self._send("resume", name)

    def close(self) -> None:
        """Ends the engine; `step` returns when its memory is free."""
        self._closing = True
        self._send("close")
        self._calls.close()

    def stuck_s(self) -> float:
        """Returns for how long the process has been silent although it has work."""
        return time.perf_counter() - self._heard if self._requests else 0.0

    def _send(self, *message: Any) -> None:
        try:
            with self._sending:
                channel.send(self._news, channel.packed(message))
        except OSError:  # the process has ended; `step` raises the error
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

    # ---- on the loop's thread

    @property
    def busy(self) -> bool:
        """Whether `step` has something to wait for: always, so that it sees the end of the process at once."""
        return not self._ended

    def step(self) -> list[Any]:
        """Waits for what the engine has made. Raises when the process has ended."""
        while not self._inbox.begun and not select.select([self._news], [], [], ASK_S)[0]:
            if self._requests:
                self._send("alive")
        try:
            kind, *given = self._inbox.receive()
        except (EOFError, OSError):
            self._ended = True
            if self._closing:
                self._news.close()
                return []
            raise RuntimeError("the process of the engines has ended") from None
        self._heard = time.perf_counter()
        if kind == "broken":
            raise RuntimeError(given[0] + "\n" + given[1])
        if kind != "news":
            return []
        for one in given[0]:
            if getattr(one, "last", True):
                self._requests.discard(one.request)
        return given[0]  # type: ignore[no-any-return]


class ProcessLoop(Loop):
    """The queue of an engine in another process."""

    engine: Any

    def stuck_s(self) -> float:
        """Returns for how long the engine has been silent although it has work."""
        return self.engine.stuck_s()  # type: ignore[no-any-return]

    def close(self) -> None:
        """Cancels everything, and waits for the end of the engine."""
        if os.getpid() != self.process:
            return
        self.cancel_all()
        self.engine.close()
        while self._thread is None and self.engine.busy:  # it has never had a request
            self.engine.step()
        super().close()
