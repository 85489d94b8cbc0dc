"""Strangers are within their ranges, and their descriptions are true."""

from __future__ import annotations

import random
import re

import pytest

from omnitts_cli.training import recipe
from omnitts_cli.training.strangers import FACTS, describe, facts, passing, pitch_of, tempo_of
from omnitts_cli.training.teacher import BASES, TeacherVoice


def described(voice: TeacherVoice) -> str:
    """Everything that is ever said about it."""
    draw = random.Random(5)
    return " / ".join(describe(voice, draw) for _ in range(300)).lower()


def test_strangers_differ_and_keep_within_the_ranges() -> None:
    ranges, draw = recipe.read().strangers, random.Random(0)
    met = [passing(draw, ranges) for _ in range(300)]
    assert len(set(met)) == 300 and {voice.base for voice in met} == set(BASES)
    for voice in met:
        assert ranges.shift[0] <= voice.shift <= ranges.shift[1] and ranges.pace[0] <= voice.pace <= ranges.pace[1]
        assert (voice.pitch > 0) == (voice.base != "rms")


@pytest.mark.parametrize(
    ("voice", "said", "never"),
    [
        (TeacherVoice("rms", 0.83, 0.8), {"deep", "slow", "man", "male"}, {"high", "fast", "woman", "female"}),
        (TeacherVoice("slt", 1.2, 1.25), {"high", "fast", "woman", "female"}, {"deep", "slow", "male", "scottish"}),
        (TeacherVoice("awb", 1.0, 1.08), {"scottish accent", "man"}, {"deep", "high", "slow", "fast", "robotic"}),
        (TeacherVoice("kal16", 1.0, 0.87, 110.0), {"robotic", "male"}, {"deep", "high", "slow", "fast", "female"}),
    ],
)
def test_descriptions_are_true_and_of_many_kinds(voice: TeacherVoice, said: set[str], never: set[str]) -> None:
    text = described(voice)
    for word in said:
        assert re.search(rf"\b{word}\b", text), word
    for word in never:
        assert not re.search(rf"\b{word}\b", text), word
    assert len(set(text.split(" / "))) > 20
    assert "  " not in text and " ." not in text and ",," not in text


def test_every_description_says_something() -> None:
    draw, ranges = random.Random(1), recipe.read().strangers
    for _ in range(2000):
        words = describe(passing(draw, ranges), draw)
        assert 3 <= len(words) < 90 and words.isascii() and words[-1] not in " ,"


def test_facts_are_what_is_heard() -> None:
    voice = TeacherVoice("kal16", 1.25, 1.0, 100.0)
    assert pitch_of(voice) == 125.0 and tempo_of(voice) > 1
    known = facts(voice)
    assert len(known) == FACTS and known[: len(BASES)] == [0.0, 0.0, 0.0, 1.0] and known[len(BASES)] == 0.0
