"""Letters to sounds of four languages, against what espeak-ng reads in 300 committed lines each."""

import subprocess
import sys

import pytest
from languages import LANGUAGES, rows, sounded, wrong_words

from omnitts_cli.text.european.contexts import SOUNDED
from omnitts_cli.text.european.sentence import phonemes

LEAST = {"es": 0.998, "fr": 0.985, "it": 0.992, "pt": 0.989}
"""The share of words that are read as espeak-ng reads them, stress and all. May only rise."""


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_read_as_espeak_reads_them(language: str) -> None:
    assert len(rows(language, "lines")) == 300
    count, wrong = wrong_words(language)
    assert count > 1_900 and 1 - len(wrong) / count >= LEAST[language], wrong


@pytest.mark.parametrize(("language", "words", "said"), [
    ("it", "perché caffè", "perkˌe kaffˈɛ"), ("es", "céntimos párpados", "θˈentimos pˈaɾpaðos"),
    ("fr", "j'ai comment avant quelque", "ʒe kɔmˌɑ̃ avˌɑ̃ kˌɛlk"), ("pt", "teve", "tˌevy"),
])  # fmt: skip
def test_no_vowel_is_lost_where_the_stress_is_weak_or_an_accent(language: str, words: str, said: str) -> None:
    found = phonemes(words, language)
    assert len([sound for sound in found if sound in SOUNDED]) == len([sound for sound in said if sound in SOUNDED])


@pytest.mark.parametrize("language", LANGUAGES)
def test_marks_stand_after_words_and_stress_before_vowels(language: str) -> None:
    said = phonemes("«La casa», (ella) no va; ¿no? si… La - la!", language)
    assert [mark for mark in said if mark in ",.!?"] == [",", ",", ",", "?", ".", "!"]
    assert "  " not in said and said == said.strip()
    assert not any(word.endswith(("ˈ", "ˌ")) for word in sounded(said))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("text", ["", " ", "...", "x" * 3_000, "ŷ 北京 abc", "l'", "-a-", "'", "ﬁ ǅ"])
def test_any_text_has_an_answer(language: str, text: str) -> None:
    assert isinstance(phonemes(text, language), str)


def test_accents_in_two_signs_are_read_as_in_one() -> None:
    assert phonemes("canción", "es") == phonemes("canción", "es") != phonemes("cancion", "es")


def test_a_table_is_loaded_when_its_language_comes() -> None:
    code = (
        "import sys; from omnitts_cli.text.european import sentence as s; s.phonemes('casa', 'es'); "
        "print(s.tables_of.cache_info().currsize, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]
