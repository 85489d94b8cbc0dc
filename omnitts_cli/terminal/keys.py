"""Keys pressed while something plays: read from the terminal even when stdin is a pipe."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def pressed(act: Callable[[str], None]) -> Iterator[bool]:
    """Calls `act` on a thread of its own for each key. Yields False, and does nothing, without a terminal."""
    try:
        import termios
        import tty

        terminal = os.open("/dev/tty", os.O_RDONLY)
    except (ImportError, OSError):
        yield False
        return
    before = None
    try:
        if not in_front(terminal):
            yield False
            return
        before = termios.tcgetattr(terminal)
        tty.setcbreak(terminal)
        threading.Thread(target=listen, args=(terminal, act), daemon=True).start()
        yield True
    except termios.error:  # a background job may not change the terminal
        yield False
    finally:
        if before is not None:
            with suppress(termios.error):
                termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def in_front(terminal: int) -> bool:
    """Whether we are in the foreground: changing the terminal from the background would stop the process."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False


def listen(terminal: int, act: Callable[[str], None]) -> None:
    with suppress(OSError):
        while key := os.read(terminal, 1):
            act(key.decode("latin-1"))
