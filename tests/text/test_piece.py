"""Pieces: speech or silence, and the break in front."""

from __future__ import annotations

import pytest

from omnitts_cli.text.piece import Break, Piece


@pytest.mark.parametrize(("gap", "seconds"), [("none", 0.0), ("sentence", 0.25), ("paragraph", 0.6)])
def test_gaps_are_what_the_person_asked_for(gap: Break, seconds: float) -> None:
    assert Piece("x", 0, 1, gap=gap).gap_s(0.25, 0.6) == seconds


def test_a_pause_has_no_words() -> None:
    assert Piece("x", 0, 1).speech and not Piece("", 0, 0, pause_s=1.0).speech
