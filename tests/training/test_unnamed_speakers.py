"""Unseen speakers are within their ranges, and their descriptions are true."""

import random
import re
from dataclasses import replace

import pytest

from omnitts_cli.training import recipe
from omnitts_cli.training.teacher import FACTS, STYLE, Facts
from omnitts_cli.training.unnamed_speakers import describe, random_speaker

NAMES = ("af_heart", "af_kore", "af_sky", "am_michael", "am_puck", "bf_emma", "bm_george", "bm_lewis")
PLAIN = Facts(0.0, 0.3, 120.0, 4.6, (0.0,) * STYLE)


def described(facts: Facts) -> str:
    """Everything that is ever said about it."""
    draw = random.Random(5)
    return " / ".join(describe(facts, draw) for _ in range(300)).lower()


def test_unnamed_speakers_differ_and_keep_within_the_ranges() -> None:
    ranges, draw = recipe.read().unnamed_speakers, random.Random(0)
    met = [random_speaker(draw, ranges, NAMES) for _ in range(300)]
    assert len(set(met)) == 300 and {name for voice in met for name, _ in voice.mix} == set(NAMES)
    for voice in met:
        assert abs(sum(share for _, share in voice.mix) - 1) < 1e-9
        assert ranges.pitch[0] <= voice.pitch <= ranges.pitch[1] and ranges.pace[0] <= voice.pace <= ranges.pace[1]
        assert ranges.tract[0] <= voice.tract <= ranges.tract[1]
    assert 0.3 < sum(voice.woman > 0.5 for voice in met) / 300 < 0.7


@pytest.mark.parametrize(
    ("facts", "said", "never"),
    [
        (replace(PLAIN, pitch=85.0, tempo=3.5), {"deep", "slow", "man", "male"}, {"high", "fast", "woman", "female"}),
        (replace(PLAIN, woman=1.0, pitch=250.0, tempo=6.0), {"high", "fast", "woman"}, {"deep", "slow", "male"}),
        (replace(PLAIN, british=1.0), {"british accent", "man"}, {"deep", "high", "slow", "fast", "american"}),
        (replace(PLAIN, woman=0.5, pitch=150.0), {"speaker"}, {"man", "woman", "male", "female", "deep", "high"}),
    ],
)
def test_descriptions_are_true_and_of_many_kinds(facts: Facts, said: set[str], never: set[str]) -> None:
    text = described(facts)
    for word in said:
        assert re.search(rf"\b{word}\b", text), word
    for word in never:
        assert not re.search(rf"\b{word}\b", text), word
    assert len(set(text.split(" / "))) > 8
    assert "  " not in text and " ." not in text and ",," not in text


def test_every_description_says_something_and_nothing_unknown() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        facts = Facts(draw.random(), draw.random(), draw.uniform(70, 300), draw.uniform(3, 7), (0.0,) * STYLE)
        words = describe(facts, draw)
        assert 3 <= len(words) < 90 and words.isascii() and words[-1] not in " ,"
    unknown = Facts(1.0, float("nan"), 210.0, 4.5, (float("nan"),) * STYLE, float("nan"))
    assert not re.search("england|british|american|english", described(unknown))
    known = Facts(1.0, 0.0, 150.0, 4.5, (0.3,) * STYLE).numbers()
    assert len(known) == FACTS and known[:5] == [1.0, 0.0, 0.0, 0.0, 0.0] and known[5] == 0.3
