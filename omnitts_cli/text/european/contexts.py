"""What the letters of a sentence stand for, looked up by the letters around them: the longest known context decides.

A clause is a string in small letters, with `|` at both ends. Three tables are asked in turn:
which vowel of a word has the stress, by the end of the word; which others have a secondary one; and which sounds each
letter stands for. Each has only the contexts that differ from what shorter ones say.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

MAGIC = b"OTC1"
CLAUSE = "|"
PART = re.compile(r"[^\W\d_]+")
PRIMARY, SECONDARY = "ˈ", "ˌ"
VOWELS = frozenset("aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýœ")
SOUNDED = frozenset("aeiouyæøœɐɑɒɔəɛɜɪʊʌɨʉɵ")
"""Vowels among sounds, before which stress is written."""
WIDTHS = ((0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 4), (4, 4), (5, 5), (6, 6), (8, 8), (11, 11))
"""Letters before and after the one that is read, the shortest context first."""
ONLY_SECONDARY, BY_LETTER = 20, 40
"""Labels of a word: the vowel with primary stress, counted from the end; that and 20 where it has a secondary one;
the letter and 40 where it is not a vowel, 60 if it has a secondary one.
"""
ACCENTED = frozenset("áéíóúâêôàèìòù")
BY_ACCENT = "´"
"""A key of the table of stress: in this language accents show the stress."""


class Tables(NamedTuple):
    """Contexts -> what they say."""

    stress: Mapping[str, str]
    second: Mapping[str, str]
    sounds: Mapping[str, str]


def nuclei(part: str) -> list[int]:
    """The places of the vowels of a word, without a u that is not spoken."""
    found = []
    for n, letter in enumerate(part):
        if letter not in VOWELS:
            continue
        before, after = part[n - 1 : n] if n else "", part[n + 1 : n + 2]
        if letter == "u" and before and before in "qg" and after and after in "eiéíêèa":
            continue
        found.append(n)
    return found


def stress_keys(part: str, after: str) -> Iterator[str]:
    """The contexts of a word's stress, the shortest first: its ends, the whole, and the sign after it."""
    for size in range(min(len(part), 12) + 1):
        yield f"{part[len(part) - size :]}$"
    yield f"^{part}"
    yield f"^{part}{after}"


def second_keys(part: str, places: list[int], n: int, stressed: int | None, before: bool) -> Iterator[str]:
    """The contexts of a secondary stress on the vowel `n`, the shortest first."""
    away = "n" if stressed is None else str(max(-3, min(6, stressed - n)))
    key = f"{away},{min(n, 3)}{'+' if before else '-'}"
    yield key
    at, padded, last = places[n] + 3, f"  ^{part}$  ", ""
    for left, right in ((0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 4), (3, 6)):
        longer = f"{key}{padded[max(0, at - left) : at]}.{padded[at : at + right + 1]}"
        if longer != last:
            yield longer
        last = longer
    yield f"{n}^{part}"


def sound_keys(text: str, at: int, mark: str) -> Iterator[str]:
    """The contexts of a letter's sounds, the shortest first. `mark`: its stress."""
    last = ""
    for left, right in WIDTHS:
        key = f"{text[max(0, at - left) : at]}{mark or '.'}{text[at : at + right + 1]}"
        if key != last:
            yield key
        last = key


def longest(table: Mapping[str, str], keys: Iterable[str]) -> str:
    """What the longest known context says."""
    for key in reversed(list(keys)):
        if (said := table.get(key)) is not None:
            return said
    return ""


def by_accent(part: str, places: list[int]) -> int:
    """The last vowel with an accent, counted from the end; 0 if there is none."""
    return next((n for n, place in enumerate(reversed(places), 1) if part[place] in ACCENTED), 0)


def stress_label(table: Mapping[str, str], part: str, places: list[int], after: str) -> int:
    """What the longest known end of the word says; if that ends before an accent which shows stress, the accent."""
    known = [key for key in stress_keys(part, after) if key in table]
    accent = by_accent(part, places) if BY_ACCENT in table else 0
    if accent and (not known or len(known[-1]) <= len(part) - places[-accent]):
        return accent
    return int(table[known[-1]]) if known else 0


def stress_of(tables: Tables, part: str, after: str) -> dict[int, str]:
    """Place of a letter -> the stress mark of its vowel."""
    places = nuclei(part)
    label = stress_label(tables.stress, part, places, after)
    marks: dict[int, str] = {}
    stressed = None
    if label >= BY_LETTER:
        mark = SECONDARY if label >= BY_LETTER + ONLY_SECONDARY else PRIMARY
        marks[max(0, len(part) - label % ONLY_SECONDARY)] = mark
    elif label:
        from_end = label % ONLY_SECONDARY
        if from_end <= len(places):
            stressed = len(places) - from_end
            marks[places[stressed]] = SECONDARY if label > ONLY_SECONDARY else PRIMARY
    before = False
    for n, place in enumerate(places):
        if place not in marks and (mark := longest(tables.second, second_keys(part, places, n, stressed, before))):
            marks[place] = mark
        before = place in marks
    return marks


def marked(text: str, tables: Tables) -> tuple[str, dict[int, str]]:
    """The clause with its stressed letters as capitals, and the marks by their places."""
    marks = {
        part.start() + place: mark
        for part in PART.finditer(text)
        for place, mark in stress_of(tables, part[0], text[part.end()]).items()
    }
    return capitals(text, marks), marks


def capitals(text: str, marks: Mapping[int, str]) -> str:
    """Letters with primary stress as capitals."""
    letters = list(text)
    for place, mark in marks.items():
        if mark == PRIMARY and len(letters[place].upper()) == 1:
            letters[place] = letters[place].upper()
    return "".join(letters)


def stressed(sounds: str, mark: str) -> str:
    """The mark before the first vowel of the sounds; before all of them where they have none."""
    for n, sound in enumerate(sounds):
        if sound in SOUNDED:
            return sounds[:n] + mark + sounds[n:]
    return mark + sounds if sounds else ""


def spoken(text: str, tables: Tables) -> list[str]:
    """The sounds of each letter of a clause."""
    text, marks = marked(text, tables)
    found = []
    for at, letter in enumerate(text):
        if letter in " |":
            found.append("")
            continue
        mark = marks.get(at, "")
        sounds = longest(tables.sounds, sound_keys(text, at, mark))
        found.append(stressed(sounds, mark) if mark else sounds)
    return found


def write(path: Path, tables: Tables) -> None:
    """The tables, each sorted, in one compressed block."""
    lines = ["\n".join(f"{key}\t{said}" for key, said in sorted(table.items())) for table in tables]
    path.write_bytes(MAGIC + zlib.compress("\f".join(lines).encode(), 9))


def read(path: Path) -> Tables:
    """The tables of a file."""
    data = path.read_bytes()
    if data[:4] != MAGIC:
        raise ValueError(f"{path} has no tables of letters")
    tables = zlib.decompress(data[4:]).decode().split("\f")
    return Tables(*(dict(line.split("\t") for line in table.split("\n")) for table in tables))  # type: ignore[misc]
