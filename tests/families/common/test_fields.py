"""Ours: every key of our own object may be missing, and a folder without the object is like one with an empty one."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.fields import Fields, ours_in


@pytest.mark.parametrize("top", [{}, {"omnitts": None}, {"omnitts": {}}, {"omnitts": {"longest_piece": None}}])
def test_what_is_not_said(top: dict[str, object]) -> None:
    ours = ours_in(Fields(Path("config.json"), top))
    assert ours.longest_piece is None and ours.plain_letters is False and ours.text_input is None


def test_what_is_said() -> None:
    ours = ours_in(Fields(Path("config.json"), {"omnitts": {"longest_piece": 110, "plain_letters": True}}))
    assert ours.longest_piece == 110 and ours.plain_letters is True


def test_a_model_that_reads_phonemes_has_them_made_of_plain_letters() -> None:
    ours = ours_in(Fields(Path("config.json"), {"omnitts": {"text_input": "phonemes-en-us", "plain_letters": False}}))
    assert ours.text_input == "phonemes-en-us" and ours.plain_letters is True


@pytest.mark.parametrize("value", ["phonemes-en-gb", "letters", "", 3, True, ["phonemes-en-us"]])
def test_a_text_input_that_is_not_known_is_refused(value: object) -> None:
    with pytest.raises(ModelError, match=r"config.json: omnitts.text_input: .*supported: phonemes-en-us"):
        ours_in(Fields(Path("config.json"), {"omnitts": {"text_input": value}}))


@pytest.mark.parametrize("value", [0, 19, 10_001, True, "110", 110.0])
def test_a_wrong_length_is_named(value: object) -> None:
    with pytest.raises(ModelError, match=r"config.json: omnitts.longest_piece: .* from 20 to 10000"):
        ours_in(Fields(Path("config.json"), {"omnitts": {"longest_piece": value}}))
