"""A sentence in words -> its phonemes, in the signs of the phonetic alphabet; numbers must have become words before.

Words are apart by one space. Stress marks stand right before vowels; `,.!?` follow words.
"""

import re
import unicodedata
from functools import cache
from pathlib import Path

from omnitts_cli.text.european.contexts import CLAUSE, Tables, read, spoken
from omnitts_cli.text.given import sounds_of

TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*['’]?|[,.;:!?…()\[\]\"«»“”—–]+")
MARKS = str.maketrans({";": ",", ":": ",", "(": ",", ")": ",", "—": ",", "–": ",", "…": "."})
GIVEN_AS = (("eɪ", "e"), ("oʊ", "o"), ("ɑ", "a"), ("ʧ", "tʃ"), ("ʤ", "dʒ"))
QUIET = frozenset('[]"«»“”')
"""Marks that end no clause."""


@cache
def tables_of(language: str) -> Tables:
    """Loaded when a text of the language comes."""
    return read(Path(__file__).parent / f"{language}.bin")


def phonemes(text: str, language: str) -> str:
    """The phonemes of a text in that language."""
    said, words = "", list[str]()
    for token in (found[0] for found in TOKEN.finditer(unicodedata.normalize("NFC", text))):
        if (sounds := sounds_of(token)) is not None:
            said, words = f"{with_clause(said, words, language)} {abroad(sounds, language)}".strip(), []
            continue
        if token[0].isalpha():
            words.append(token.lower().replace("’", "'"))
            continue
        if set(token) - QUIET:
            said, words = with_clause(said, words, language), []
            mark = next((mark for mark in "?!.," if mark in token.translate(MARKS)), "")
            said += mark if said and said[-1] not in ",.!?" else ""
    return with_clause(said, words, language)


def abroad(sounds: str, language: str) -> str:
    """Given sounds, which are written in American signs, in those of the language."""
    for american, own in (*GIVEN_AS, ("ɹ", "ʁ" if language == "fr" else "ɾ")):
        sounds = sounds.replace(american, own)
    return sounds


def with_clause(said: str, words: list[str], language: str) -> str:
    """What was said, and one more clause of words."""
    if not words:
        return said
    clause = " ".join(words)
    sounds = spoken(f"{CLAUSE}{clause}{CLAUSE}", tables_of(language))
    now = "".join(sound or " " * (letter == " ") for letter, sound in zip(clause, sounds[1:], strict=False))
    return " ".join(f"{said} {now}".split())
