"""The neighbours of a place in a text: the words before and after it, in small letters and without marks.

What a letter, a hyphen or a stroke means is decided from these, and from nothing farther away than REACH.
"""

import re

REACH = 48
WORD = re.compile(r"[^\s,;:!?()\[\]\"“”—–/.-]+(?:['’.-][^\s,;:!?()\[\]\"“”—–/.-]+)*")
OPERATOR = re.compile(r"[=<>≤≥≠≈^*·×÷√+]|[a-z]\(")
"""Shows that something is computed."""


def before(text: str, at: int, most: int = 1) -> list[str]:
    """Up to `most` words before a place, the nearest first."""
    found = WORD.findall(text[max(0, at - REACH) : at])
    return [plain(word) for word in reversed(found[-most:])]


def after(text: str, end: int, most: int = 1) -> list[str]:
    """Up to `most` words after a place, the nearest first."""
    return [plain(word) for word in WORD.findall(text[end : end + REACH])[:most]]


def plain(word: str) -> str:
    return word.strip("'’*_#$&\"").lower()


def word_before(text: str, at: int) -> str:
    """The word right before a place; empty where there is none or a mark stands between."""
    found = re.search(r"([A-Za-z][\w'’-]*)\.?[ #(]{1,2}\Z", text[max(0, at - 26) : at])
    return plain(found[1]) if found else ""


def word_after(text: str, end: int) -> str:
    """The word right after a place, or after one space or hyphen."""
    found = re.match(r"[ -]([A-Za-z][A-Za-z'’]*)", text[end : end + 26])
    return plain(found[1]) if found else ""


def name_after(text: str, end: int) -> bool:
    """Whether the next word begins with a capital."""
    return bool(re.match(r" [A-Z]", text[end : end + 2]))


def computed(text: str, start: int, end: int) -> bool:
    """Whether the place is part of a formula."""
    near = text[max(0, start - 14) : start] + " " + text[end : end + 14]
    return bool(OPERATOR.search(near))
