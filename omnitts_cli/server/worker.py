"""The process of the engines, which `engines.py` starts.

HTTP stays in the other process, so that the engine's thread never waits for an interpreter lock that HTTP holds. All
models share this process: kernels of one process run side by side on a GPU, those of several take turns.
"""

import gc
import os
import signal
import socket
import sys
import threading
import traceback
from typing import Any

from omnitts_cli.devices.fingerprint import of_exact
from omnitts_cli.errors import OmniError
from omnitts_cli.request import Request
from omnitts_cli.server import channel
from omnitts_cli.speech.elsewhere import FarDevice, FarEngine, FarFacts, FarModel, FarPlan
from omnitts_cli.speech.loop import Loop, SpeechEngine
from omnitts_cli.terminal.signals import SIGNALS

SWITCH_S = 0.0005
"""A thread that is busy in Python yields after this time; with Python's 5 ms, sound waited 6 ms for the event loop."""
STUCK_S = 2.0


def main() -> None:
    """Opens the models that the other process asks for, each in a thread, until that process ends."""
    for number in SIGNALS:
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
    engine: Any = tts.engine  # a Loop
    Worker(engine, inbox, channel.Outbox(news)).run()
    del tts, engine
    gc.unfreeze()
    gc.collect()
    news.close()


def described(engine: SpeechEngine) -> FarEngine:
    """The facts about an engine that the other process needs."""
    model, device = engine.model, engine.device
    facts = FarFacts(model.facts.sample_rate, model.facts.frame_rate, model.facts.hidden)
    about = FarModel(
        model.name, facts, model.kinds, model.speakers, model.languages, model.precision, model.sha256,
        model.longest_piece, model.plain_letters, model.obeys_style, adapter=model.adapter,
    )  # fmt: skip
    plan = FarPlan(engine.plan.slots, engine.plan.frames, engine.plan.first_alone)
    return FarEngine(about, plan, FarDevice(device.name, device.card, of_exact(device)), model.vector_of is not None)


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
    """Runs one engine for the other process: calls come in, news go out, and no frame waits for either."""

    def __init__(self, engine: Loop, calls: channel.Inbox, out: channel.Outbox) -> None:
        self._engine, self._calls, self._out = engine, calls, out
        self._news: list[Any] = []
        self._told: set[str] = set()  # requests that have a slot, as the other process knows
        engine.after_step = self._tell

    def run(self) -> None:
        """Answers calls until the other process closes the engine."""
        engine = self._engine
        for name, *given in self._calls.messages():
            if name == "submit":
                self._submit(*given)
            elif name == "alive":
                if engine.stuck_s() <= STUCK_S:
                    self._out.put(channel.packed(("alive",)))
            elif name == "close":
                break
            else:
                getattr(engine, name)(*given)  # feed, finish, cancel, pause, resume
        engine.close()
        self._out.close()

    def _submit(self, request: Request, live: bool, priority: int, client: str) -> None:
        if self._engine.broken is None:  # else `_tell` ends this process
            self._engine.submit(request, self._collect, live=live, priority=priority, client=client)

    # ---- on the thread of the engine

    def _collect(self, news: Any) -> None:
        self._news.append(news)

    def _tell(self) -> None:
        """Sends what a step has made and who has got a slot. An engine that fails ends the process: its device may be
        lost, and a new process begins anew.
        """
        error = self._engine.broken
        if error is not None:
            trace = "".join(traceback.format_exception(error))
            self._out.put(channel.packed(("broken", f"{type(error).__name__}: {error}", trace)))
            self._out.close(1)
            os._exit(1)
        admitted = self._engine.engine.admitted
        new = {name: since for name, since in admitted.items() if name not in self._told}
        if new or self._news:
            self._out.put(channel.packed(("news", new, self._news)))
            self._news = []
        self._told = set(admitted)
