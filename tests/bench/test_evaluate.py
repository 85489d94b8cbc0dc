"""Words are counted as the recogniser's judges count them."""

from __future__ import annotations

import numpy as np
import pytest

from omnitts_cli.bench.evaluate import error_rate, hard_words, resample, sentences, unseen, word_errors, words


@pytest.mark.parametrize(
    ("said", "recognised", "errors"),
    [("a b c", "a b c", 0), ("a b c", "a x c", 1), ("a b c", "a c", 1), ("a b", "a x b y", 2), ("a b", "", 2)],
)
def test_word_errors(said: str, recognised: str, errors: int) -> None:
    assert word_errors(said.split(), recognised.split()) == errors


def test_words_are_compared_without_case_or_marks() -> None:
    assert words("The soft cushion broke the Man's fall.") == "the soft cushion broke the man's fall".split()


def test_the_rate_is_over_all_words() -> None:
    sounds = [np.zeros(3), np.ones(3)]
    answers = iter(["one two", "three"])
    assert error_rate(["One two.", "Three four."], sounds, lambda sound: next(answers)) == 0.25


def test_evaluation_speaks_sentences_of_three_kinds() -> None:
    assert len(set(sentences())) == 50 and len(hard_words()) == 300
    assert len({" ".join(words(sentence)) for sentence in unseen()}) == len(unseen()) == 410


def test_hard_words_stand_in_their_sentences() -> None:
    for hard in hard_words():
        assert hard.word.lower() in hard.sentence.lower() and hard.phonemes.strip() == hard.phonemes != ""


def test_resampling_keeps_the_sound() -> None:
    time = np.arange(1600) / 16000
    tone = np.sin(2 * np.pi * 400 * time).astype(np.float32)
    higher = resample(tone, 2400)
    assert np.allclose(higher, np.sin(2 * np.pi * 400 * np.arange(2400) / 24000), atol=1e-3)
