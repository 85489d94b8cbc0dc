"""The forms of a number in figures, and what they amount to in words."""

import re

from omnitts_cli.text.numerals import cardinal, digits, number
from omnitts_cli.text.spoken import around, english
from omnitts_cli.text.spoken.units import LARGE

FIGURE = (
    r"(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d{1,2}(?:,\d\d)+,\d{3}(?!\d)(?:\.\d+)?"
    r"|[1-9]\d{0,2}(?: \d{3}){2,4}(?![\d,])"
    r"|[1-9]\d{0,2} 000(?! ?\d)|\d{1,3}(?:[’']\d{3}){1,4}(?!\d)|\d{1,3}(?:_\d{3}){1,4}(?!\d)"
    r"|\d{1,3}(?:\.\d{3}){2,4}(?:,\d\d)?(?![\d.])"
    r"|\d+(?:\.\d+)?|\.\d+)"
)
AT = re.compile(FIGURE)
CONTINENTAL = re.compile(r"\d{1,3}(?:\.\d{3}){2,4}(?:,\d\d)?")
DASH = re.compile(r" ?[-–—] ?(?=\.?\d)")
LARGE_WORD = r"(?:[ -]?(?:million|billion|trillion|thousand)|(?: ?(?:bn|tn|mn)|k|K|mm|m|M|b|B|T)| [bBmM])\b"
SINGULAR = re.compile(r"\b(?:an?|one|per|each|every)[ -](?:[a-z]+ )?\Z", re.IGNORECASE)
NOT_A_NOUN = re.compile(
    r" (?:a|an|and|at|away|by|before|after|each|every|for|from|if|in|into|is|it|less|long|more|of|off|on|or|over|per"
    r"|than|that|the|to|under|was|when|with|high|wide|tall|deep|old|ago|later|are|were|but|you|we|they|he|she|I)\b"
)


def plain(figure: str) -> str:
    """The digits of a figure with a point for the decimals: 1.234,50 and 1 234.50 -> 1,234.50 without separators."""
    if CONTINENTAL.fullmatch(figure):
        figure = figure.replace(".", "").replace(",", ".")
    return re.sub(r"[ ’'_]", "", figure)


def amount(figure: str) -> str:
    """A figure as a quantity: never a year, never digit by digit because of its separators."""
    bare = plain(figure)
    if bare == figure:
        return number(figure)
    before, _, after = bare.partition(".")
    return cardinal(int(before.replace(",", ""))) + (f" point {digits(after)}" if after else "")


def scale(large: str | None) -> str:
    return f" {LARGE.get(large.strip(' -').lower(), large.strip(' -'))}" if large else ""


def adjective(text: str, start: int, end: int) -> bool:
    """Whether an amount stands before its noun: a $5 bill, a 10 km run, 12 V battery."""
    if around.word_after(text, end) in english.MEASURED_NOUNS:
        return True
    named = re.match(r"[ -](?:[A-Z0-9][\w-]* ){1,2}([A-Za-z]+)", text[end : end + 36])
    if named and named[1].lower() in english.MEASURED_NOUNS:
        return True  # a 65W USB-C charger, 65" 4K TV
    before, after = text[max(0, start - 20) : start], text[end : end + 12]
    return (
        bool(SINGULAR.search(before))
        and bool(re.match(r"[ -](?:[a-z]{3}|[A-Z]{2})", after))
        and not NOT_A_NOUN.match(after)
    )
