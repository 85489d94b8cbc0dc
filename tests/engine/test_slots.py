"""The host's record of a slot: when it may run, when it starves, when it is over."""

from __future__ import annotations

import pytest
import torch

from omnitts_cli.engine.plan import Plan
from omnitts_cli.engine.slots import Slot, SlotTable, Stop
from omnitts_cli.models.roles import Facts
from omnitts_cli.request import Request

FACTS = Facts(
    groups=3, codes=8, vocabulary=12, end_code=9, hidden=4, sample_rate=8000, samples_per_frame=640, max_positions=99
)


def slot(**facts: object) -> Slot:
    made = Slot(0, Request("hi"), seed=0, limit=10, prompt_rows=5, reference=2, tokens=2)
    for name, value in facts.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("launched", "written", "closed", "hungry"),
    [(0, 0, False, False), (1, 0, False, True), (1, 1, False, False), (3, 2, False, True), (3, 2, True, False)],
)
def test_frame_k_needs_text_row_k_minus_1(launched: int, written: int, closed: bool, hungry: bool) -> None:
    assert slot(launched=launched, written=written, closed=closed).hungry == hungry


@pytest.mark.parametrize(
    ("facts", "runs"),
    [
        ({}, True),
        ({"launched": 10}, False),
        ({"launched": 9}, True),
        ({"paused": True}, False),
        ({"stop": Stop.END}, False),
        ({"launched": 4, "closed": False, "written": 3}, False),
    ],
)
def test_runnable(facts: dict[str, object], runs: bool) -> None:
    assert slot(**({"closed": True} | facts)).runnable == runs


def test_final_counts_the_reference() -> None:
    assert slot(made=4).final is None
    assert slot(made=4, stop=Stop.LIMIT).final == 6


def test_undecoded_until_the_last_sound_is_back() -> None:
    assert slot(made=4, decoding=5).undecoded
    assert not slot(made=4, decoding=6).undecoded
    assert slot(made=4, decoding=6, stop=Stop.END, delivered=5).undecoded
    assert not slot(made=4, decoding=6, stop=Stop.END, delivered=6).undecoded


def test_unreported_until_the_host_has_seen_the_frames() -> None:
    """The reference's own codes are there once the first frame has been reported."""
    assert slot(made=0).unreported(1)
    assert not slot(made=4).unreported(6)
    assert slot(made=4).unreported(7)


def test_a_table_has_a_spare_row_and_holds_still() -> None:
    table = SlotTable.empty(Plan.of(3, 2, 12.5), FACTS, torch.device("cpu"), torch.float32)
    assert table.codes.shape == (4, 26, 3) and table.report.shape == (2, 4)
    table.made[1], table.stop[2] = 7, 3
    assert table.report.tolist() == [[0, 7, 0, 0], [0, 0, 3, 0]]  # views of what the host reads
    assert not table.live.any()
