"""Words before a full stop that does not end a sentence, by language, in lower case and without spaces: words/.

`titles` never end a sentence: something must follow. `numbered` do not before a number. `common` do
only before a word that often begins a sentence. `starters` are those words. `closing` end one before any capital
letter, but for the words in `zones`. `suffixes` are titles that may also stand behind a name: then they are
`common`, and `orders` are verbs that begin a sentence behind them. `short` do not end one before a small letter or a
digit: they are written inside sentences. `also_words` are those of them that are said as they stand too.
"""

import re
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any

from omnitts_cli.text.language import word_lists
from omnitts_cli.text.short_english import ALSO_WORDS, SHORT_ENGLISH


@dataclass(frozen=True)
class ShortFormRules:
    titles: frozenset[str]
    numbered: frozenset[str]
    common: frozenset[str]
    starters: frozenset[str]
    closing: frozenset[str] = frozenset()
    zones: frozenset[str] = frozenset()
    suffixes: frozenset[str] = frozenset()
    orders: frozenset[str] = frozenset()
    short: frozenset[str] = frozenset()
    also_words: frozenset[str] = frozenset()
    ordinals: bool = False  # `3. Mai`: a full stop after a number makes it an ordinal

    @cached_property
    def known(self) -> frozenset[str]:
        """All words that stand before a full stop."""
        return self.titles | self.numbered | self.common | self.closing | self.suffixes | self.short


NAMES = [field.name for field in fields(ShortFormRules) if field.name != "ordinals"]
GERMAN_DATE = re.compile(
    r"(?:Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember)\b|(?:April|August|September|November)\b(?= \d)"
)
GERMAN_BEFORE = re.compile(r"\b(?:der|dem|des|das|im|vom|zum|zur) \d+$")
"""What shows that a text of unknown language has a German ordinal: the month behind it, or the article before it."""

WRITTEN = ("en", "de", "fr", "es", "pt", "it", "ru")
"""The languages with lists of their own; the others have those of English."""
MORE = {"en": {"short": SHORT_ENGLISH, "also_words": ALSO_WORDS}}


@cache
def rules_for(language: str | None) -> ShortFormRules:
    """The rules of a language; of all of them together where it is not known."""
    if language is None:
        every = [rules_for(known) for known in WRITTEN]
        joined: dict[str, Any] = {name: frozenset().union(*(getattr(one, name) for one in every)) for name in NAMES}
        return ShortFormRules(**joined)
    language = language if language in WRITTEN else "en"
    lists, more = word_lists(language), MORE.get(language, {})
    words: dict[str, Any] = {
        name: frozenset(map(str.lower, [*lists.get(name, ()), *more.get(name, ())])) for name in NAMES
    }
    return ShortFormRules(**words, ordinals=language == "de")
