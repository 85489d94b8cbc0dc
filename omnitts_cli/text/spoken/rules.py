"""How written forms are declared, and how the one at a place of a text is found.

A rule says with what it begins, so that few rules are tried at each place. Its function reads the match, or returns
None where the neighbours show that something else is meant; then the next rule is tried.
"""

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import NamedTuple

Match = re.Match[str]
Said = str | tuple[str, int] | None
"""Words; with the place where the form ends, if that is not the end of the match; None: it is something else."""
Read = Callable[[Match], Said]

DIGIT, LETTER = "0", "a"
"""Stand for any digit and any letter in `Rule.starts` and `Rule.then`."""
END = "\n"
PLAIN = "="
"""Before a word of a rule that stands as any other word would: only the rules that name it can read it."""
FIRST_DIGITS = re.compile(r"\d{1,40}")
FIRST_WORD = re.compile(r"[A-Za-z]{1,40}")
PLAIN_AFTER = re.compile(r"[ ,;!?)\"]|[.:](?:[ \"')](?!\d)|\Z)|\Z")
"""What follows a word that is read as it stands, if it is in small letters and begins no form."""


class Rule(NamedTuple):
    """One written form. `starts`: the characters that it can begin with.

    `then`: those that can come right after the digits that it begins with; empty: any. `words`: with which it
    begins, in small letters; empty: with anything.
    """

    starts: str
    pattern: str
    read: Read
    then: str = ""
    words: Collection[str] = ()


class ReadingRules:
    """All forms of a language, in order: of those that fit at a place, the first reads it."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self.words = frozenset(word for rule in self._rules for word in rule.words)
        self._beginning: dict[str, tuple[Rule, ...]] = {}

    def at(self, text: str, place: int) -> tuple[str, int] | None:
        """The words for what begins at this place, and where it ends; None where nothing does."""
        for rule in self._candidates(text, place):
            found = compiled(rule.pattern).match(text, place)
            if found is not None and (said := rule.read(found)) is not None:
                words, end = (said, found.end()) if isinstance(said, str) else said
                return apart(text, place, end, words), end
        return None

    def read(self, text: str, places: re.Pattern[str]) -> str:
        """The text with the words of every form. `places`: where one can begin."""
        parts, end = [], 0
        for place in places.finditer(text):
            if text[place.end() : place.end() + 1] == " " and place[0].islower() and place[0] not in self.words:
                continue  # a word that is read as it stands, as most are
            if place.start() >= end and (found := self.at(text, place.start())):
                parts += [text[end : place.start()], found[0]]
                end = found[1]
        return "".join(parts) + text[end:]

    def _candidates(self, text: str, place: int) -> tuple[Rule, ...]:
        kind = kind_of(text[place])
        key = kind
        if kind == DIGIT:
            digits = FIRST_DIGITS.match(text, place)
            after = text[digits.end() : digits.end() + 1] if digits else ""
            key += (after if after in "-/:., '" else kind_of(after)) if after else END
        elif kind == LETTER and (found := FIRST_WORD.match(text, place)):
            word = found[0].lower()
            plain = (found[0][1:].islower() or found[0] == word) and PLAIN_AFTER.match(text, found.end())
            if word in self.words:
                key = f"{PLAIN if plain else ''}{word if len(word) > 1 else f'{LETTER} {word}'}"
            elif plain:
                return ()
        known = self._beginning.get(key)
        if known is None:
            known = self._beginning[key] = tuple(rule for rule in self._rules if begins(rule, kind, key))
        return known


def begins(rule: Rule, kind: str, key: str) -> bool:
    if kind not in rule.starts:
        return False
    if kind == LETTER:
        word = key.removeprefix(PLAIN)
        return word.removeprefix(f"{LETTER} ") in rule.words or (word == key and not rule.words)
    return kind != DIGIT or not rule.then or key[1] in rule.then


def kind_of(character: str) -> str:
    if character.isdecimal():
        return DIGIT
    return LETTER if character.isalpha() else character


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when it is first tried; most texts need few of them."""
    return re.compile(pattern)


def apart(text: str, start: int, end: int, words: str) -> str:
    """The words, apart from letters that they were written together with, as in H2O."""
    if words == text[start:end]:
        return words
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    return (
        f"{' ' * (before.isalnum() and words[:1].isalnum())}{words}{' ' * (after.isalnum() and words[-1:].isalnum())}"
    )
