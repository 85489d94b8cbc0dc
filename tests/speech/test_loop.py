"""What acts as an engine, and waiting for threads."""

import inspect
import threading
import time
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.request import Request
from omnitts_cli.server.engines import ProcessEngine
from omnitts_cli.speech import loop
from omnitts_cli.speech.loop import Loop, SpeechEngine, wait_for
from omnitts_cli.speech.remote import RemoteEngine


@pytest.mark.parametrize("engine", [Loop, ProcessEngine, RemoteEngine])
def test_what_can_speak_has_every_method_of_the_protocol(engine: type) -> None:
    methods = {
        name: method for name, method in vars(SpeechEngine).items() if inspect.isfunction(method) and name[0] != "_"
    }
    assert {"submit", "cancel", "close"} <= {*methods}
    for name, method in methods.items():
        wanted, found = inspect.signature(method).parameters, inspect.signature(getattr(engine, name)).parameters
        assert {*wanted} == {*found} and [one.kind for one in wanted.values()] == [one.kind for one in found.values()]


class Stuck(threading.Thread):
    """Runs on; waiting for it moves a clock."""

    now = 100.0

    def is_alive(self) -> bool:
        return True

    def join(self, timeout: float | None = None) -> None:
        Stuck.now += timeout or 0.0


def test_waiting_for_threads_ends_with_them_or_after_its_time_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    quick = [threading.Thread(target=done.wait, daemon=True) for _ in range(3)]
    for thread in quick:
        thread.start()
    done.set()
    wait_for([*quick, threading.Thread()])
    assert not any(thread.is_alive() for thread in quick)
    monkeypatch.setattr(loop, "time", SimpleNamespace(**vars(time) | {"monotonic": lambda: Stuck.now}))
    wait_for([*(Stuck() for _ in range(5)), threading.Thread()], 0.2)
    assert Stuck.now == pytest.approx(100.2)  # not 0.2 s for each


class Steps:
    """An engine that makes three chunks of one request, the first of which comes alone."""

    model = device = plan = None

    def __init__(self) -> None:
        nothing = np.zeros(0, np.float32), np.zeros((0, 16), np.int64)
        self._left = deque(
            [[Chunk("r1", 0, *nothing)], [Chunk("r1", 1, *nothing)], [Chunk("r1", 2, *nothing, last=True)]]
        )

    @property
    def busy(self) -> bool:
        return bool(self._left)

    def submit(self, request: object, **more: object) -> str:
        return "r1"

    def step(self) -> list[Chunk]:
        return self._left.popleft()


def test_a_core_is_left_to_who_sends_a_first_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[object]()
    monkeypatch.setattr(loop, "yield_core", lambda: seen.append("yield"))
    engine: Any = Steps()
    speaks, done = Loop(engine), threading.Event()

    def heard(chunk: Chunk) -> None:
        seen.append(chunk.index)
        if chunk.last:
            done.set()

    speaks.after_step = lambda: seen.append("told")
    speaks.submit(Request("Hello."), heard)
    assert done.wait(10)
    speaks.close()
    assert seen == [0, "told", "yield", 1, "told", 2, "told"]
