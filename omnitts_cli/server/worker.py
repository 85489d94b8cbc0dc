"""The process of the engines, which `engines.py` starts.

HTTP stays in the other process, so that the engine's thread never waits for an interpreter lock that HTTP holds. All
models share this process: kernels of one process run side by side on a GPU, those of several take turns.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import time
import traceback
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from omnitts_cli.devices.fingerprint import of_exact
from omnitts_cli.errors import OmniError
from omnitts_cli.server import channel

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import Engine

SWITCH_S = 0.0005
"""A thread that is busy in Python yields after this time; with Python's 5 ms, sound waited 6 ms for the event loop."""
STUCK_S = 2.0


def main() -> None:
    """Opens the models that the other process asks for, each in a thread, until that process ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the server decides when this process ends
    sys.setswitchinterval(SWITCH_S)
    control = socket.socket(fileno=int(sys.argv[1]))
    while True:
        try:
            _, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        except OSError:
            break
        if not descriptors:
            break
        news, calls = (socket.socket(fileno=one) for one in descriptors)
        threading.Thread(target=serve, args=(news, calls), daemon=True).start()
    os._exit(0)


def serve(news: socket.socket, calls: socket.socket) -> None:
    """Opens one model, and runs its engine until the other process closes it."""
    inbox = channel.Inbox(news)
    opener, args, settings = inbox.receive()
    try:
        tts = opener(*args, tell=lambda notice: channel.send(news, channel.packed(("notice", notice))), **settings)
    except OmniError as error:
        channel.send(news, channel.packed(("failed", error)))
        return
    except BaseException:
        channel.send(news, channel.packed(("failed", RuntimeError(traceback.format_exc()))))
        return
    gc.collect()
    gc.freeze()
    channel.send(news, channel.packed(("ready", described(tts.engine))))
    threading.Thread(target=answer, args=(tts.engine.model, calls), daemon=True).start()
    worker = Worker(tts.engine, inbox, channel.Outbox(news))
    del tts
    worker.run()
    del worker
    gc.unfreeze()
    gc.collect()
    news.close()


def described(engine: Engine) -> dict[str, Any]:
    """The facts about an engine that the other process needs."""
    model, device = engine.model, engine.device
    facts = model.facts
    about = asdict(facts) if hasattr(facts, "__dataclass_fields__") else dict(vars(facts))
    names = ("name", "kinds", "speakers", "languages", "sha256", "longest_piece", "plain_letters",
             "obeys_style")  # fmt: skip
    return {
        "model": {name: getattr(model, name) for name in names}
        | {"dtype": model.precision, "precision": model.precision},
        "facts": about | {"frame_rate": facts.frame_rate},
        "vectors": model.vector_of is not None,
        "slots": engine.plan.slots,
        "frames": engine.plan.frames,
        "device": {"name": device.name, "card": device.card, "exact": of_exact(device)},
    }


def answer(model: Any, calls: socket.socket) -> None:
    """Encodes clips for the other process."""
    functions = {"codes": lambda sound: model.cloner.codes(sound),
                 "embedding": lambda sound: model.cloner.embedding(sound),
                 "vector": lambda name: model.vector_of(name)}  # fmt: skip
    for name, given in channel.Inbox(calls).messages():
        try:
            found = True, functions[name](given)
        except OmniError as error:
            found = False, error
        except Exception:
            found = False, RuntimeError(traceback.format_exc())
        channel.send(calls, channel.packed(found))


class Worker:
    """Runs one engine: a thread reads calls, one steps, and no frame waits for the other process."""

    def __init__(self, engine: Engine, calls: channel.Inbox, out: channel.Outbox) -> None:
        self._engine, self._calls, self._out = engine, calls, out
        self._wake = threading.Event()
        self._closed = False
        self._step_began: float | None = None

    def run(self) -> None:
        """Steps until the other process closes the engine. An engine that fails ends the process: its device may be
        lost, and a new process begins anew.
        """
        threading.Thread(target=self._read, daemon=True).start()
        try:
            while not self._closed or self._engine.busy:
                if self._engine.busy:
                    self._step_began = time.perf_counter()
                    if news := self._engine.step():
                        self._out.put(channel.packed(("news", news)))
                    self._step_began = None
                else:
                    self._wake.wait()
                    self._wake.clear()
        except BaseException as error:
            self._out.put(channel.packed(("broken", f"{type(error).__name__}: {error}", traceback.format_exc())))
            self._out.close(1)
            os._exit(1)
        self._out.close()

    def _read(self) -> None:
        engine = self._engine
        for name, *given in self._calls.messages():
            if name == "submit":
                engine.submit(given[0], live=given[1])
            elif name == "alive":
                if not self._stuck():
                    self._out.put(channel.packed(("alive",)))
            elif name == "close":
                break
            else:
                getattr(engine, name)(*given)  # feed, finish, cancel, pause, resume
            self._wake.set()
        self._closed = True
        self._wake.set()

    def _stuck(self) -> bool:
        began = self._step_began
        return began is not None and not self._engine.sleeping and time.perf_counter() - began > STUCK_S
