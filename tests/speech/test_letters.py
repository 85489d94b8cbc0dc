"""Letters as classes of sound."""

import pytest

from omnitts_cli.speech.letters import ANY, FRICATIVE, LIQUID, NASAL, SIBILANT, STOP, SYLLABLE, sounds_of

SHORT = {NASAL: "N", SIBILANT: "S", FRICATIVE: "F", STOP: "T", LIQUID: "L"}


def spelled(word: str) -> str:
    """The sounds that cannot be absent; V for a vowel, in brackets what may be absent."""
    names = [SHORT.get(sound.classes[0], "V") if len(sound.classes) < 3 else "X" for sound in sounds_of(word)]
    return "".join(f"({name})" if sound.absent else name for name, sound in zip(names, sounds_of(word), strict=True))


@pytest.mark.parametrize(("word", "sounds"), [
    ("dog", "TVT"), ("Bell", "TVL"), ("make", "NVT(V)"), ("station", "STVS(V)N"), ("knight", "NVT"),
    ("phone", "FVN(V)"),
    ("walked", "(L)VLT(V)T"), ("houses", "(F)VS(V)S"), ("the", "FV"), ("she", "SV"), ("thumb", "FVN"), ("I", "V"),
    ("don't", "TVNT"), ("über", "VTV(L)"), ("да", "TV"), ("e", "V"),
])  # fmt: skip
def test_words(word: str, sounds: str) -> None:
    assert spelled(word) == sounds


def test_characters_that_are_syllables_and_words_without_letters() -> None:
    assert sounds_of("中文") == [*SYLLABLE, *SYLLABLE] and len(sounds_of("7")) == 6
    assert sounds_of("—") == [ANY] and sounds_of("h")[0].absent is False
