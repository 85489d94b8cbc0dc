"""What is made while nothing is spoken: when it begins, and what ends it."""

import threading
from collections.abc import Iterator

import pytest
from patience import LONG_S, eventually

from omnitts_cli.doors import ahead
from omnitts_cli.doors.ahead import Ahead
from omnitts_cli.doors.reader import Utterance


class Work:
    """Each call lasts until it is ended."""

    def __init__(self) -> None:
        self.begun: list[Utterance] = []
        self.ended = 0

    def __call__(self, now: Utterance) -> None:
        self.begun.append(now)
        eventually(lambda: now.end)
        self.ended += 1


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def at_rest(work: Work, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ahead]:
    monkeypatch.setattr(ahead, "IDLE_S", 0.01)
    found = Ahead(work)
    yield found
    closing = threading.Thread(target=found.close)
    closing.start()
    closing.join(LONG_S)
    assert not closing.is_alive()


def test_it_begins_after_a_rest_and_ends_when_something_is_spoken(at_rest: Ahead, work: Work) -> None:
    for number in (1, 2):
        at_rest.rest()
        eventually(lambda: len(work.begun) == number)  # noqa: B023
        assert work.ended == number - 1
        at_rest.leave()
        eventually(lambda: work.ended == number)  # noqa: B023


def test_it_begins_anew_after_a_change_and_not_before_a_rest(
    at_rest: Ahead, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_rest.rest()
    eventually(lambda: work.begun)
    at_rest.rest()  # the settings have changed
    eventually(lambda: len(work.begun) == 2)
    assert work.ended == 1
    monkeypatch.setattr(ahead, "IDLE_S", LONG_S)
    at_rest.rest()
    eventually(lambda: work.ended == 2)
    assert len(work.begun) == 2


def test_nothing_begins_after_the_end(work: Work) -> None:
    one = Ahead(work)
    one.close()
    one.rest()
    assert not [thread for thread in threading.enumerate() if thread.name == "omnitts ahead"]
