"""The host's record of a request: when it may run, when it starves, when it is over."""

from __future__ import annotations

import pytest

from omnitts_cli.engine.slots import Record, State, Stop
from omnitts_cli.request import Request


def record(**facts: object) -> Record:
    """A running request with a reference of two frames, unless said otherwise."""
    usual = {"state": State.RUNNING, "limit": 10, "reference": 2}
    return Record("x", Request("hi"), **usual | facts)


@pytest.mark.parametrize(
    ("launched", "written", "closed", "starved"),
    [(0, 0, False, False), (1, 0, False, True), (1, 1, False, False), (3, 2, False, True), (3, 2, True, False)],
)
def test_frame_k_needs_text_row_k_minus_1(launched: int, written: int, closed: bool, starved: bool) -> None:
    assert record(launched=launched, written=written, closed=closed).starved == starved


@pytest.mark.parametrize(
    ("facts", "runs"),
    [
        ({}, True), ({"launched": 10}, False), ({"launched": 9}, True), ({"paused": True}, False),
        ({"state": State.FINISHING}, False), ({"state": State.OPENING}, False),
        ({"launched": 4, "closed": False, "written": 3}, False),
    ],
)  # fmt: skip
def test_runnable(facts: dict[str, object], runs: bool) -> None:
    assert record(**({"closed": True} | facts)).runnable == runs


def test_final_counts_the_reference() -> None:
    assert record(made=4).final is None
    assert record(made=4, stop=Stop.LIMIT).final == 6


def test_undecoded_until_the_last_sound_is_back() -> None:
    assert record(made=4, decoding=5).undecoded
    assert not record(made=4, decoding=6).undecoded
    assert record(made=4, decoding=6, stop=Stop.END, delivered=5).undecoded
    assert not record(made=4, decoding=6, stop=Stop.END, delivered=6).undecoded


def test_unreported_until_the_host_has_seen_the_frames() -> None:
    """The reference's own codes are there once the first frame has been reported."""
    assert record(made=0).unreported(1)
    assert not record(made=4).unreported(6)
    assert record(made=4).unreported(7)


@pytest.mark.parametrize(
    ("facts", "may"),
    [
        ({"open_text": False}, True),
        ({"open_text": True, "early": "  "}, False),
        ({"open_text": True, "early": "a word "}, True),
        ({"open_text": True, "early": "a word ", "too_early": True}, False),
    ],
)
def test_an_open_request_needs_its_first_words(facts: dict[str, object], may: bool) -> None:
    assert record(state=State.WAITING, **facts).speakable == may
