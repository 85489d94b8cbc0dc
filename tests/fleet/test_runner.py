"""Many texts in threads: every result is handed over, and an error or the end of the run stops what is under way."""

import threading
from typing import Any

import pytest

from omnitts_cli.fleet import runner as runners
from omnitts_cli.fleet.runner import PATIENCE_S, OpenStreams, Runner, Stopping

LONG_S = 60.0


class Open:
    """A stream that is under way until it is closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


def of(streams: OpenStreams, texts: list[str], speak: Any, threads: int = 3) -> Runner[str, str]:
    order = iter(texts)
    return Runner(streams, lambda: next(order, None), speak, threads, "text")


def test_every_result_is_handed_over() -> None:
    with of(OpenStreams(), list("abcdefgh"), str.upper) as runner:
        found = [runner.next() for _ in range(11)]
    assert sorted(filter(None, found)) == list("ABCDEFGH") and runner.left == 0


def test_an_error_ends_what_is_under_way_and_keeps_what_is_finished() -> None:
    streams, stopped, begun = OpenStreams(), list[str](), threading.Barrier(3)

    def speak(text: str) -> str:
        if text == "done":
            return text
        begun.wait(LONG_S)
        if text == "broken":
            raise ValueError(text)
        stream: Any = Open()
        try:
            with streams.under_way(stream):
                assert stream.closed.wait(LONG_S)
                streams.check()
        except Stopping:
            stopped.append(text)
            raise
        return text

    with pytest.raises(ValueError, match="broken"), of(streams, ["done", "a", "b", "broken", "never"], speak) as runner:
        while True:
            runner.next()
    assert stopped == ["a", "b"] or stopped == ["b", "a"]
    late: Any = Open()
    with pytest.raises(Stopping), streams.under_way(late):
        pass
    assert late.closed.is_set()


def test_threads_that_do_not_end_delay_an_error_once(monkeypatch: pytest.MonkeyPatch) -> None:
    never, waited = threading.Event(), list[tuple[int, float]]()
    monkeypatch.setattr(runners, "wait_for", lambda threads, s: waited.append((len(threads), s)))

    def speak(text: str) -> str:
        if text == "broken":
            raise ValueError(text)
        never.wait()
        return text

    with pytest.raises(ValueError, match="broken"), of(OpenStreams(), ["a", "b", "broken"], speak) as runner:
        try:
            while True:
                runner.next()
        finally:
            runner.stop()
    never.set()
    assert [one for one in waited if one[0]] == [(3, PATIENCE_S)]  # for all of them together
