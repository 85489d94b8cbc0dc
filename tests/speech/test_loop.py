"""What acts as an engine, and waiting for threads."""

from __future__ import annotations

import inspect
import threading
import time
from types import SimpleNamespace

import pytest

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
