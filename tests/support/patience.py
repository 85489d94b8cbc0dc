"""Waiting for what must happen, however slow the machine is."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LONG_S = 120.0
"""Stops a test that hangs; no test measures with it."""


def eventually(holds: Callable[[], Any]) -> Any:
    """Waits until something holds, and returns it."""
    until = time.monotonic() + LONG_S
    while not (found := holds()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)
    return found


@contextmanager
def first_sound_only(engine: Any) -> Iterator[None]:
    """Stops the engine after its next sound, so that requests keep running until the block ends."""
    go, step = threading.Event(), engine.step
    sounded: list[Any] = []

    def until_first_sound() -> list[Any]:
        if sounded:
            assert go.wait(LONG_S)
        news = step()
        sounded.extend(news)
        return list(news)

    engine.step = until_first_sound
    try:
        yield
    finally:
        go.set()
        del engine.step
