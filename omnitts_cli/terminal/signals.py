"""Signals: the first one stops the work cleanly, the second ends the process at once."""

import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

NAMES = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hangup"}
SIGNALS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]  # Windows has no SIGHUP
PIPE_CLOSED = 128 + 13  # SIGPIPE, also where the signal itself does not exist
PATIENCE_S = 1.5  # the longest delay after a signal, for a pending write or until no lock may be held
AGAIN_S = 0.02  # between two attempts to raise Stopped
IMPORT = "<frozen importlib._bootstrap>"


class Stopped(BaseException):
    """A signal asked us to stop. Not an Exception, so that error handlers do not swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number
        self.word = NAMES.get(signal.Signals(number).name, "stopped")


class Hold:
    """The state of signal handling: whether a block of sound is being written, and which signal was received."""

    def __init__(self) -> None:
        self.depth = 0
        self.pending: int | None = None  # raised at the end of the block
        self.came: int | None = None
        self.until = 0.0  # from this time on, Stopped is raised even if a lock may be held
        self.raised: weakref.ref[Stopped] | None = None
        self.unraisable = sys.unraisablehook


HOLD = Hold()


def stop(number: int, frame: FrameType | None) -> None:
    """The handler. From now on the same signals end the process at once.

    A write that blocks forever, as into a pipe that is not read, must not keep the process alive.
    """
    for known in SIGNALS:
        signal.signal(known, end)
    HOLD.came, HOLD.until = number, time.monotonic() + PATIENCE_S
    HOLD.unraisable, sys.unraisablehook = sys.unraisablehook, unraisable
    take_effect(number, frame)


def unraisable(what: Any) -> None:
    """Hides the traceback of a Stopped that Python discards in a finalizer: it will be raised again."""
    if not isinstance(what.exc_value, Stopped):
        HOLD.unraisable(what)


def take_effect(number: int, frame: FrameType | None) -> None:
    """Raises Stopped now, or schedules it for later."""
    if HOLD.depth:
        HOLD.pending = number
        alarm(PATIENCE_S, lambda *_: os._exit(128 + number))
    elif locking(frame) and time.monotonic() < HOLD.until and again(number):
        pass
    else:
        raise raised(number)


def raised(number: int) -> Stopped:
    """Returns the exception to raise. If a library catches and discards it, another one is raised shortly afterwards.
    Torch, for example, discards any exception while it imports numpy.
    """
    stopped = Stopped(number)
    HOLD.raised = weakref.ref(stopped)
    again(number)
    return stopped


def locking(frame: FrameType | None) -> bool:
    """Whether an exception in this frame could leave a lock held: in an import, or where a `with` begins or ends."""
    code = frame.f_code if frame else None
    return code is not None and (code.co_filename == IMPORT or code.co_name in ("__enter__", "__exit__"))


def again(number: int) -> bool:
    """Tries again after AGAIN_S. Returns False where there are no alarms (Windows)."""

    def look(_: int, frame: FrameType | None) -> None:
        if HOLD.raised is not None and HOLD.raised() is not None:
            again(number)
        elif HOLD.came is not None:
            take_effect(number, frame)

    return alarm(AGAIN_S, look)


def alarm(after_s: float, handler: Callable[[int, FrameType | None], object]) -> bool:
    if not hasattr(signal, "setitimer"):
        return False
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    return True


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
        raise raised(number)


def no_alarm() -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0.0)


@contextmanager
def handled() -> Iterator[None]:
    """Installs the handlers and restores the previous ones. Signals that are ignored, as under nohup, stay ignored."""
    here = SIGNALS if threading.current_thread() is threading.main_thread() else []
    former = {number: handler for number in here if (handler := signal.getsignal(number)) is not signal.SIG_IGN}
    try:
        for number in former:
            signal.signal(number, stop)
        yield
    finally:
        no_alarm()
        for number, handler in former.items():
            signal.signal(number, handler)
        if HOLD.came is not None:
            sys.unraisablehook = HOLD.unraisable
        HOLD.depth, HOLD.pending, HOLD.came, HOLD.raised = 0, None, None, None
