"""Keys pressed while something plays, on a pseudo terminal."""

import os
import queue
import termios

import pytest
from patience import LONG_S

from omnitts_cli.terminal import keys


def test_each_key_is_passed_on_and_the_terminal_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    person, terminal = os.openpty()
    before = termios.tcgetattr(terminal)
    monkeypatch.setattr(keys.os, "open", lambda *_: terminal)
    monkeypatch.setattr(keys, "in_front", lambda _: True)
    typed: queue.Queue[str] = queue.Queue()
    with keys.pressed(typed.put) as works:
        assert works and not termios.tcgetattr(terminal)[3] & termios.ICANON
        os.write(person, b" q")
        assert [typed.get(timeout=LONG_S), typed.get(timeout=LONG_S)] == [" ", "q"]
    assert termios.tcgetattr(terminal) == before
    os.close(person)  # the thread's read fails, and it ends


def test_in_the_background_and_without_a_terminal_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    person, terminal = os.openpty()
    assert not keys.in_front(terminal)  # of another session
    monkeypatch.setattr(keys.os, "open", lambda *_: terminal)
    with keys.pressed(lambda key: None) as works:
        assert not works

    def missing(*_: object) -> int:
        raise OSError("no terminal")

    monkeypatch.setattr(keys.os, "open", missing)
    with keys.pressed(lambda key: None) as works:
        assert not works
    os.close(person)
    os.close(terminal)
