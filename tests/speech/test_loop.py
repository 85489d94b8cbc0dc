"""What acts as an engine, and waiting for threads."""

from __future__ import annotations

import inspect
import threading
import time

import pytest

from omnitts_cli.server.engines import ProcessEngine
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


def test_waiting_for_threads_ends_with_them_or_after_its_time_in_all() -> None:
    done, never = threading.Event(), threading.Event()
    unstarted = threading.Thread(target=never.wait)
    quick = [threading.Thread(target=done.wait, daemon=True) for _ in range(3)]
    stuck = [threading.Thread(target=never.wait, daemon=True) for _ in range(5)]
    for thread in (*quick, *stuck):
        thread.start()
    done.set()
    wait_for([*quick, unstarted])
    assert not any(thread.is_alive() for thread in quick)
    began = time.monotonic()
    wait_for([*stuck, unstarted], 0.2)
    assert 0.2 <= time.monotonic() - began < 0.8  # not 0.2 s for each
    never.set()
    wait_for(stuck)
    assert not any(thread.is_alive() for thread in stuck)
