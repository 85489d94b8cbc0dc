"""Words on their own: entries, inflections, letters, hyphens, parts, and what is in no dictionary."""

from pathlib import Path

import pytest

from omnitts_cli.text.american import words as room
from omnitts_cli.text.american.words import WordReader, default, plural

HERE = Path(room.__file__).parent


@pytest.fixture(scope="module")
def words() -> WordReader:
    return WordReader(HERE)


@pytest.mark.parametrize(("word", "spoken"), [
    ("hello", "həlˈO"), ("Hello", "həlˈO"), ("hawaii", "həwˈIi"), ("polish", "pˈɑlɪʃ"), ("Polish", "pˈOlɪʃ"),
    ("And", "ˌænd"), ("cat's", "kˈæts"), ("boss's", "bˈɔsᵻz"), ("kids'", "kˈɪdz"), ("O'Brien's", "ObɹˈIənz"),
    ("don't", "dˈOnt"), ("API", "ˌApˌiˈI"), ("APIs", "ˌApˌiˈIz"), ("GPUs", "ʤˌipˌijˈuz"), ("HTTP", "ˌAʧtˌitˌipˈi"),
    ("NASA", "nˈæsə"), ("xkcd", "ˌɛkskˌAsˌidˈi"), ("twenty-three", "twˈɛntiθɹˌi"), ("eighty-column", "ˈATi kˈɑləm"),
    ("best-effort", "bˌɛstˈɛfəɹt"), ("GitHub", "ɡˈɪthˌʌb"), ("b", "bˈi"), ("w", "dˈʌbᵊlju"),
    ("Kubernetes", "kˌubəɹnˈɛTiz"),
])  # fmt: skip
def test_words(word: str, spoken: str, words: WordReader) -> None:
    assert default(words.readings(word)) == spoken


@pytest.mark.parametrize(("word", "stem"), [("googled", "google"), ("vaping", "vape"), ("blogs", "blog")])
def test_inflections_keep_their_stem(word: str, stem: str, words: WordReader) -> None:
    assert default(words.readings(word)).startswith(default(words.readings(stem))[:-1])


@pytest.mark.parametrize(
    ("stem", "spoken"), [("kˈæt", "kˈæts"), ("dˈɔɡ", "dˈɔɡz"), ("bˈɔs", "bˈɔsᵻz"), ("ˈAʤ", "ˈAʤᵻz")]
)
def test_plurals(stem: str, spoken: str) -> None:
    assert plural(stem) == spoken


@pytest.mark.parametrize(("word", "parts"), [
    ("unboxable", ("ˌʌn", "bˈɑks", "əbᵊl")), ("rewatchable", ("ɹ", "wˈɑʧ", "əbᵊl")),
    ("screenshotless", ("skɹˈin", "ləs")), ("micromanagement", ("mˌIkɹO", "mˈænɪʤ")),
    ("doomscroll", ("dˈum", "skɹ")),
])  # fmt: skip
def test_new_words_are_put_together_from_known_ones(word: str, parts: tuple[str, ...], words: WordReader) -> None:
    spoken = default(words.readings(word))
    assert all(part in spoken for part in parts), spoken


def test_heteronyms_have_both_readings_and_capitals_are_letters_unless_shouted(words: WordReader) -> None:
    assert words.readings("record") == {"DEFAULT": "ɹˈɛkəɹd", "VERB": "ɹəkˈɔɹd"}
    assert words.readings("records")["VERB"] == "ɹəkˈɔɹdz"  # type: ignore[index]
    assert words.readings("US") == "jˌuˈɛs" or words.readings("US") == "ˌjuˈɛs"
    assert default(words.readings("US", shouted=True)) == "ˈʌs"
    assert default(words.readings("IT", shouted=True)) == "ˈɪt"


@pytest.mark.parametrize(
    ("word", "spoken"),
    [("Paul", "pˈɔl"), ("Boris", "bˈɔɹɪs"), ("Elvis", "ˈɛlvɪs"), ("broccoli", "bɹˈɑkəli"), ("Harvard's", "hˈɑɹvəɹdz")],
)
def test_names_and_words_that_only_cmudict_has(word: str, spoken: str, words: WordReader) -> None:
    assert default(words.readings(word)) == spoken
