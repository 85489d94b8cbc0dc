"""The string that a model's tokenizer gets: its alphabet, its form, hard words, and text that is still arriving."""

import re
import sys
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnitts_cli.bench.evaluate import hard_words
from omnitts_cli.errors import InputError
from omnitts_cli.text.american.phonemes import ArrivingPhonemes, phonemes, readable
from omnitts_cli.text.spell_out import plain_letters

STRING = re.compile(r"[ ,.!?ˈˌɾaɪeʊoɔbdfhijklmnpstuvwzæðŋɑɒəɛɜɡɹʃʌʒʤʧθᵊᵻ]*")
ODD = ["😀 hello 😀", "a\x00b\x1b[31mc", "z" * 10_000, "a" * 10_000, "'" * 500, "-" * 500, "x-" * 300, "'-'-'",
       "I I I", "A", "a", "-a-",
       "e\u0301t\u00e9", "1234567890" * 20, "v1.2.3-rc4", "C:\\x\\y", "#!/bin/sh", "<|im_end|>",
       "ALL CAPS HERE", "MiXeD cAsE", "\u2028\u2029", "ﬁne", "½ of ²", "Zalgo\u0300\u0301\u0302"]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=60) | st.text(st.sampled_from("aAbeIst'-,.!? 19$%&"), max_size=60))
@example("hello world")
def test_nothing_outside_the_alphabet_comes_out(text: str) -> None:
    try:
        string = phonemes(text)
    except InputError as error:
        assert "Latin letters only" in error.message
        return
    assert STRING.fullmatch(string), string
    assert "  " not in string and string == string.strip() and " ," not in string


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_too(text: str) -> None:
    assert STRING.fullmatch(phonemes(text))


def test_other_scripts_are_refused_or_left_out_of_arriving_text() -> None:
    with pytest.raises(InputError, match="Latin letters only"):
        phonemes("Привет")
    assert readable("hello мир world").split() == ["hello", "world"]


def test_the_form_of_the_string() -> None:
    assert phonemes("One basic notion.") == "wˈʌn bˈeɪsɪk nˈoʊʃən."
    assert phonemes(plain_letters("It is (really) 5% \u2013 no; \u201cmore\u201d!")) == (
        "ˌɪt ɪz, ɹˈiᵊli, fˈaɪv pəɹsˈɛnt, nˈoʊ, mˈɔɹ!"
    )
    assert phonemes("5 cats") == phonemes("five cats")
    assert phonemes("A method") == "ə mˈɛθəd"
    assert phonemes("John F. Kennedy. At 6 a.m.") == "ʤˈɑn ˈɛf kˈɛnədi. ˌæt sˈɪks ˌeɪˈɛm."


LOOSE = str.maketrans({**dict.fromkeys("ˈˌ ", ""), **dict.fromkeys("ᵻɪɐʌᵊ", "ə"), "T": "t", "ɾ": "t"})
"""Stress and reduced vowels apart."""


def test_hard_words() -> None:
    """Heteronyms, names, foreign words and words of technology. Not an independent list: names of it are in ours."""
    from omnitts_cli.text.american.sentence import reader

    loose = strict = 0
    for hard in hard_words():
        said = f" {reader().spoken(plain_letters(hard.sentence))} ".translate(str.maketrans("", "", ",.!?"))
        keys = hard.phonemes.split("/")
        loose += any(key.translate(LOOSE) in said.translate(LOOSE) for key in keys)
        strict += any(f" {key} " in said for key in keys)
    sys.stdout.write(f"hard words: {loose} of 300 read right, {strict} with stress and every vowel as in the key\n")
    assert loose >= 0.93 * 300
    assert strict >= 0.90 * 300


def arriving(pieces: list[str]) -> str:
    read = ArrivingPhonemes()
    return "".join([*(read.write(piece) for piece in pieces), read.close()])


WORDS = "the apple read record to a lead of in. it, use! 5 don't Re-do NASA 'em  \n é 你"


@settings(max_examples=150, deadline=None)
@given(words=st.lists(st.sampled_from(WORDS.split(" ")), max_size=12), cuts=st.lists(st.integers(0, 60), max_size=8))
def test_pieces_give_what_the_text_gives_in_one(words: list[str], cuts: list[int]) -> None:
    text = " ".join(words)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert arriving(pieces) == arriving([text])
    assert STRING.fullmatch(arriving(pieces))


@pytest.mark.parametrize(
    "text",
    ["The apple is red, and so is the pear.", "I used to read a lot. Did you read it?", "One, two, three.", "Hello"],
)
def test_arriving_text_sounds_like_a_whole_one(text: str) -> None:
    assert arriving(list(text)) == phonemes(text)


def test_a_word_comes_out_when_the_next_one_is_complete() -> None:
    read = ArrivingPhonemes()
    assert read.write("the ") == ""
    assert read.write("app") == ""
    assert read.write("le ") == "ði"
    assert read.write("fell. ") == " ˈæpᵊl fˈɛl."
    assert read.write("So") == ""
    assert read.close() == " sˌoʊ"
