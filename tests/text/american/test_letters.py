"""Letter to sound: plausible, in the alphabet, with one stress, and in linear time."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnitts_cli.text.american import letters
from omnitts_cli.text.american.dictionary import SOUNDS
from omnitts_cli.text.american.letters import ALPHABET, FILE, LetterSounds, units

SHIPPED = Path(letters.__file__).parent / FILE


@pytest.fixture(scope="module")
def model() -> LetterSounds:
    return LetterSounds(SHIPPED)


def test_sounds_carry_their_stress_and_long_runs_are_read_in_parts(model: LetterSounds) -> None:
    assert units("kˈæt") == ["k", "ˈæ", "t"]
    assert model.spoken("abc" * 100).count("ˈ") <= 8
    assert SHIPPED.stat().st_size < 400_000


@pytest.mark.parametrize(
    ("word", "spoken"), [("blick", "blˈɪk"), ("snarple", "snˈɑɹpᵊl"), ("zindle", "zˈɪndᵊl"), ("thabe", "θˈAb")]
)
def test_made_up_words(word: str, spoken: str, model: LetterSounds) -> None:
    assert model.spoken(word) == spoken


@settings(max_examples=60, deadline=None)
@given(word=st.text(ALPHABET, min_size=1, max_size=30))
def test_only_sounds_come_out(word: str, model: LetterSounds) -> None:
    spoken = model.spoken(word)
    assert set(spoken) <= set(SOUNDS)
    assert spoken.count("ˈ") <= 1
