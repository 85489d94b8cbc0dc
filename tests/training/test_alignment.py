"""Letters aligned with their sounds."""

from omnitts_cli.text.american.letters import units
from omnitts_cli.training.alignment import LetterAlignment

PAIRS = [("cat", "kˈæt"), ("tack", "tˈæk"), ("box", "bˈɑks"), ("knot", "nˈɑt"), ("bat", "bˈæt"), ("tax", "tˈæks")]


def test_letters_are_aligned_with_their_sounds() -> None:
    alignment = LetterAlignment(units)
    alignment.learn(PAIRS * 3)
    assert alignment.align("cat", "kˈæt") == ["k", "ˈæ", "t"]
    for word, spoken in PAIRS:
        assert "".join(alignment.align(word, spoken) or ()) == spoken
    assert alignment.align("a", "ˈæbkt") is None
