"""Signals: the first one stops the work cleanly, the second ends the process at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NAMES = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hangup"}
SIGNALS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]  # Windows has no SIGHUP
PIPE_CLOSED = 128 + 13  # SIGPIPE, also where the signal itself does not exist
PATIENCE_S = 1.5  # how long a pending write may take after a signal


class Stopped(BaseException):
    """A signal asked us to stop. Not an Exception, so that error handlers do not swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number
        self.word = NAMES.get(signal.Signals(number).name, "stopped")


class PipeClosed(BaseException):
    """The reader of our output has gone. Nothing is printed; the exit code says it."""


class Hold:
    """Whether a block of sound is being written; a signal then takes effect at its end."""

    def __init__(self) -> None:
        self.depth = 0
        self.pending: int | None = None


HOLD = Hold()


def stop(number: int, frame: FrameType | None) -> None:
    """The handler. From now on the same signals end the process at once.

    A write that blocks forever, as into a pipe that is not read, must not keep the process alive.
    """
    for known in SIGNALS:
        signal.signal(known, end)
    if not HOLD.depth:
        raise Stopped(number)
    HOLD.pending = number
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda *_: os._exit(128 + number))
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)


def end(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


@contextmanager
def held() -> Iterator[None]:
    """A section that is not interrupted: a signal takes effect at its end."""
    HOLD.depth += 1
    try:
        yield
    finally:
        HOLD.depth -= 1
    if HOLD.pending is not None and not HOLD.depth:
        number, HOLD.pending = HOLD.pending, None
        no_alarm()
        raise Stopped(number)


def no_alarm() -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0.0)


@contextmanager
def handled() -> Iterator[None]:
    """Installs the handlers and restores the previous ones. Ignored signals stay ignored."""
    HOLD.depth, HOLD.pending = 0, None
    former = {}
    for number in SIGNALS:
        try:
            if signal.getsignal(number) is signal.SIG_IGN:  # nohup, or a job in the background
                continue
            former[number] = signal.signal(number, stop)
        except ValueError:  # not in the main thread
            break
    try:
        yield
    finally:
        no_alarm()
        for number, handler in former.items():
            signal.signal(number, handler)
