"""Ours: every key of our own object may be missing, and a folder without the object is like one with an empty one."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.fields import Fields, longest_piece, ours_in, plain_letters


@pytest.mark.parametrize("top", [{}, {"omnitts": None}, {"omnitts": {}}, {"omnitts": {"longest_piece": None}}])
def test_what_is_not_said(top: dict[str, object]) -> None:
    ours = ours_in(Fields(Path("config.json"), top))
    assert longest_piece(ours) is None and plain_letters(ours) is False


def test_what_is_said() -> None:
    ours = ours_in(Fields(Path("config.json"), {"omnitts": {"longest_piece": 110, "plain_letters": True}}))
    assert longest_piece(ours) == 110 and plain_letters(ours) is True


@pytest.mark.parametrize("value", [0, 19, 10_001, True, "110", 110.0])
def test_a_wrong_length_is_named(value: object) -> None:
    with pytest.raises(ModelError, match=r"config.json: omnitts.longest_piece: .* from 20 to 10000"):
        longest_piece(ours_in(Fields(Path("config.json"), {"omnitts": {"longest_piece": value}})))
