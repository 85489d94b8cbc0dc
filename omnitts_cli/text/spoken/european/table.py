"""What the rules need to know of a language."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

Changes = tuple[tuple[str, str], ...]
"""Patterns and what stands in their place, in this order."""


class Noun(NamedTuple):
    """A unit or a coin: one, several, and whether it is feminine."""

    one: str
    many: str
    feminine: bool = False


class Coin(NamedTuple):
    """A currency and its hundredth part."""

    whole: Noun
    part: Noun


@dataclass(frozen=True)
class Counting:
    """Number words. They are masculine and stand alone unless a change says otherwise."""

    small: tuple[str, ...]
    """0 to 99."""
    hundreds: tuple[str, ...]
    """100 to 900 before something smaller."""
    round_hundreds: tuple[str, ...]
    """The same with nothing after them."""
    hundred_join: str
    thousand: str
    thousands: str
    thousand_gap: str
    thousand_join: tuple[str, str]
    """Between thousands and the rest: a rest of at most 100 or of whole hundreds, and any other."""
    scales: tuple[tuple[int, Noun], ...]
    """From a million on, the largest first."""
    before_thousand: Changes
    before_noun: Changes
    """Of a number, a space and its noun."""
    feminine: Changes
    elided: Changes
    """Where words have run together."""
    of_millions: str
    """Between whole millions and their noun."""
    comma: str
    point: str
    minus: str
    singular_below: float
    """Smaller numbers, and one itself, have a singular after them."""


@dataclass(frozen=True)
class Ordinals:
    """First, second, third; and Roman numerals, which are often ordinals."""

    words: Mapping[int, str]
    ending: Changes
    """Makes one of a cardinal, where the list and its tens have none."""
    feminine: Changes
    before_noun: Changes
    masculine_mark: str
    feminine_mark: str
    """After figures, as patterns."""
    first_of_month: str
    """Empty where the day is a cardinal like the others."""
    roman_mark: str
    """After a Roman numeral it shows an ordinal."""
    centuries: frozenset[str]
    last_century: int
    """Up to this century it is an ordinal after its noun."""
    chapters: frozenset[str]
    last_king: int
    """Up to this king the number after a name is an ordinal."""
    kings: frozenset[str]
    """Names that even a single letter is a number after."""
    queens: str
    """A pattern of names that are feminine."""
    second: Mapping[str, str]
    """Marks that have words of their own."""


@dataclass(frozen=True)
class Calendar:
    """Dates and times."""

    months: tuple[str, ...]
    short_months: Mapping[str, int]
    of_month: str
    of_year: str
    """With their spaces."""
    hour: Noun
    minute: Noun
    second: Noun
    clock: str
    full_hour: str
    """`{hour}` is the number, `{hours}` the number with the word, `{minute}` a number."""
    clock_after: frozenset[str]
    """Words that show that 9.15 is a time."""
    duration_join: str
    halves: tuple[str, str, str]
    """What is said for a. m., and for p. m. before and after eight."""


@dataclass(frozen=True)
class Things:
    """Money, units, and short forms."""

    coins: Mapping[str, Coin]
    coin_join: str
    large: Mapping[str, int]
    units: Mapping[str, Noun]
    per: str
    per_units: Mapping[str, str]
    square: tuple[str, str]
    cubic: tuple[str, str]
    """For one and for several."""
    percent: str
    half: tuple[str, str]
    """Half a masculine and half a feminine thing."""
    parts: Mapping[int, Noun]
    over: str
    slash: str
    """Of a law and its year: 39/2015."""
    to: str
    signs: Mapping[str, str]
    before_names: Mapping[str, str]
    before_figures: Mapping[str, str]
    anywhere: Mapping[str, str]
    """Short forms with their full stops. One that ends the text keeps a stop."""
    phones: tuple[str, ...]
    """Patterns of telephone numbers."""
    phone_pairs: bool
    called: frozenset[str]
    """Words before a number that is a telephone's."""


@dataclass(frozen=True)
class LanguageTable:
    """One language."""

    counting: Counting
    ordinals: Ordinals
    calendar: Calendar
    things: Things
    feminine_noun: str
    masculine_noun: str
    """Exceptions of the pattern before."""
    no_noun: frozenset[str]
    """Small words, which are not what a number counts."""
    elision: Changes
    """Of the words that a rule has put together."""

    def is_feminine(self, noun: str) -> bool:
        """Whether a noun, in small letters, is probably feminine."""
        return bool(re.search(self.feminine_noun, noun)) and not re.search(self.masculine_noun, noun)


def changed(text: str, changes: Changes) -> str:
    """The text after every change."""
    for pattern, instead in changes:
        text = re.sub(pattern, instead, text)
    return text


def words(text: str) -> tuple[str, ...]:
    """Words apart by spaces; `_` stands for a space."""
    return tuple(word.replace("_", " ") for word in text.split())


def pairs(text: str) -> dict[str, str]:
    """`a=b c=d` -> {"a": "b", "c": "d"}; `_` stands for a space."""
    return dict(entry.replace("_", " ").split("=", 1) for entry in text.split())  # type: ignore[misc]


def nouns(text: str) -> dict[str, Noun]:
    """`km=kilómetro,kilómetros h=hora,horas,f` -> each with its noun; `_` stands for a space."""
    found = {}
    for short, told in pairs(text).items():
        one, many, *feminine = told.split(",")
        found[short] = Noun(one, many, bool(feminine))
    return found
