"""Plans: sizes that cover every batch. Records: when a request may run, when it starves, when it is over."""

import pytest

from omnitts_cli.engine.slots import Plan, Record, State, Stop
from omnitts_cli.request import Request


@pytest.mark.parametrize("slots", [1, 2, 5, 8, 9, 16, 40, 64, 128, 200])
def test_every_number_of_rows_has_a_bucket(slots: int) -> None:
    padded, exact = (Plan.of(slots, 10, 12.5, pads=pads) for pads in (True, False))
    assert padded.buckets[-1] == slots and list(padded.buckets) == sorted(set(padded.buckets))
    assert exact.buckets == tuple(range(1, slots + 1))
    if slots >= 8:
        assert set(range(1, 9)) <= set(padded.buckets)


def test_room_for_the_seconds_asked_for() -> None:
    plan = Plan.of(4, 60, 12.5, prompt_rows=512)
    assert plan.frames == 751 and plan.positions == 751 + 512


@pytest.mark.parametrize("more", [
    {"chunks": (2, 4)}, {"chunks": (1, 4, 2)}, {"text_rows": 0}, {"first_chunk": 0}, {"admissions": 0},
    {"burst": 0}, {"stall_frames": 1},
])  # fmt: skip
def test_a_plan_that_cannot_work_is_not_made(more: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        Plan.of(2, 10, 12.5, **more)


def test_slots_beyond_the_largest_bucket() -> None:
    with pytest.raises(AssertionError, match="bucket"):
        Plan(slots=8, positions=100, frames=50, buckets=(1, 2, 4))


def test_with_many_slots_more_requests_enter_and_are_decoded_together() -> None:
    plans = [Plan.of(slots, 10, 12.5) for slots in (8, 64, 128, 256)]
    assert [(plan.admissions, plan.burst) for plan in plans] == [(8, 8), (32, 64), (64, 64), (128, 128)]
    assert [max(plan.sound_rows) for plan in plans] == [32, 32, 64, 64]
    assert Plan.of(256, 10, 12.5, sound_rows=(1, 8)).sound_rows == (1, 8)
    assert max(Plan.of(256, 10, 12.5, pads=False).sound_rows) == 32


def test_no_burst_is_larger_than_the_slots() -> None:
    plan = Plan.of(3, 10, 12.5)
    assert plan.admissions == 3 and plan.with_slots(1).admissions == 1
    assert plan.burst == 3 and plan.with_slots(1).burst == 1
    assert Plan.of(64, 10, 12.5).burst == 64 and Plan.of(64, 10, 12.5, pads=False).burst == 1
    assert Plan.of(64, 10, 12.5).with_few_graphs().burst == Plan.of(64, 10, 12.5, admissions=2).burst == 1
    assert Plan.of(32, 10, 12.5).with_few_graphs().admissions < Plan.of(32, 10, 12.5).admissions


@pytest.mark.parametrize("pads", [True, False])
@pytest.mark.parametrize(("asked", "fitting"), [(128, 64), (256, 100), (256, 128), (64, 40), (40, 8), (8, 1)])
def test_a_plan_for_which_memory_is_short_is_the_plan_of_fewer_slots(asked: int, fitting: int, pads: bool) -> None:
    plan = Plan.of(asked, 10, 12.5, pads=pads)
    assert plan.with_slots(fitting) == Plan.of(fitting, 10, 12.5, pads=pads)


def test_fewer_slots_keep_smaller_sizes_that_were_asked_for() -> None:
    plan = Plan.of(128, 10, 12.5, admissions=5, sound_rows=(64,)).with_slots(64)
    assert (plan.admissions, plan.sound_rows) == (5, (64,))


# ---- records


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


@pytest.mark.parametrize(("facts", "runs"), [
    ({}, True), ({"launched": 10}, False), ({"launched": 9}, True), ({"paused": True}, False),
    ({"state": State.FINISHING}, False), ({"state": State.OPENING}, False),
    ({"launched": 4, "closed": False, "written": 3}, False),
])  # fmt: skip
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


@pytest.mark.parametrize(("facts", "may"), [
    ({"open_text": False}, True),
    ({"open_text": True, "early": "  "}, False),
    ({"open_text": True, "early": "a word "}, True),
    ({"open_text": True, "early": "a word ", "too_early": True}, False),
])  # fmt: skip
def test_an_open_request_needs_its_first_words(facts: dict[str, object], may: bool) -> None:
    assert record(state=State.WAITING, **facts).speakable == may
