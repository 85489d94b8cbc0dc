"""Signals: the first one stops the work in good order, the second ends the process at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NAMES = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hangup"}
PIPE_CLOSED = 128 + 13  # SIGPIPE, also where the signal itself does not exist


class Stopped(BaseException):
    """A signal asked us to stop. No Exception: nothing that handles errors may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number
        self.word = NAMES.get(signal.Signals(number).name, "stopped")


class PipeClosed(BaseException):
    """The reader of our output has gone. Nothing to say; the exit code tells."""


def stop(number: int, frame: FrameType | None) -> None:
    """The handler. From now on the same signals end the process without another question."""
    for name in NAMES:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), end)
    raise Stopped(number)


def end(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


@contextmanager
def handled() -> Iterator[None]:
    """Installs the handlers and puts the former ones back. A signal that the caller ignores stays ignored."""
    former = {}
    for name in NAMES:
        number = getattr(signal, name, None)
        if number is None:
            continue
        try:
            if signal.getsignal(number) is signal.SIG_IGN:  # nohup, or a job in the background
                continue
            former[number] = signal.signal(number, stop)
        except ValueError:  # not in the main thread
            return (yield)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
