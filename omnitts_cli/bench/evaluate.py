"""Evaluation: the sentences to speak, and their words as judges compare them."""

import re
from dataclasses import dataclass
from importlib import resources

RATE = 24_000  # samples a second of what is judged


@dataclass(frozen=True)
class HardWord:
    """A word that is easily misread. `phonemes`: how the sentence requires it, in the teacher's alphabet; / separates
    alternatives."""

    word: str
    phonemes: str
    sentence: str


def sentences() -> list[str]:
    """Harvard sentences: what evaluation speaks, and training must never have read."""
    return _lines("sentences.txt")


def harder() -> list[str]:
    """Sentences with names, terms and rare words; training must not have read them either."""
    return _lines("harder.txt")


def hard_words() -> list[HardWord]:
    """Hard words, each in a sentence; training must not have read these either."""
    return [HardWord(*line.split("|")) for line in _lines("hard_words.txt")]


def unseen() -> list[str]:
    """All sentences that training must not read."""
    return [*sentences(), *harder(), *(hard.sentence for hard in hard_words())]


def _lines(name: str) -> list[str]:
    return (resources.files(__package__) / name).read_text(encoding="utf-8").splitlines()


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z' ]", "", text.lower()).split()
