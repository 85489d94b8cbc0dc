"""Ordinals, Roman numerals, short forms and signs, by a language's table."""

import re
from collections.abc import Iterable, Mapping
from functools import partial

from omnitts_cli.text.numerals import roman
from omnitts_cli.text.spoken.european.figures import SPACES, cardinal, ordinal
from omnitts_cli.text.spoken.european.quantities import GAP, any_of, noun_after, word_after, word_before
from omnitts_cli.text.spoken.european.table import LanguageTable
from omnitts_cli.text.spoken.rules import FIRST_WORD, Match, Rule, Said

CAPITAL = r"[^\W\d_a-zß-öø-ÿœ]"
HEAT = re.compile(r" ?(?:[CFK]\b|cent|Cel|Fahr)", re.IGNORECASE)


def marked(table: LanguageTable, found: Match) -> Said:
    """3.º, 2ª, 1er, 21e."""
    if own := table.ordinals.second.get(found["mark"]):
        return own
    noun = noun_after(table, found.string, found.end())
    return ordinal(table, int(found["figure"]), found["feminine"] is not None, noun)


def degree(table: LanguageTable, found: Match) -> Said:
    """1° before its noun, where no heat is meant."""
    noun = noun_after(table, found.string, found.end())
    if not noun or HEAT.match(found.string, found.end()):
        return None
    return ordinal(table, int(found["figure"]), table.is_feminine(noun), noun)


def numeral(table: LanguageTable, found: Match) -> Said:
    """A Roman numeral, where the words around it show that it is one."""
    text, value = found.string, roman(found["roman"])
    if value is None:
        return None
    before, after = word_before(text, found.start()), word_after(text, found.end())
    if found["mark"]:
        if set(found["roman"]) - set("IVX") or (found["mark"][-1] in "rs" and value != 1):
            return None  # Le, Vers
        return ordinal(table, value, table.is_feminine(after.lower()))
    rules = table.ordinals
    if before.lower() in rules.centuries:
        return ordinal(table, value) if value <= rules.last_century else cardinal(table, value)
    if after.lower() in rules.centuries:
        return ordinal(table, value, table.is_feminine(after.lower()), after)
    if before.lower() in rules.chapters:
        return ordinal(table, value, table.is_feminine(before.lower())) if value <= 10 else cardinal(table, value)
    return of_a_name(table, found, value, before, after)


def of_a_name(table: LanguageTable, found: Match, value: int, before: str, after: str) -> Said:
    """Felipe II, II Guerra Mundial; a single letter only after the name of a king."""
    rules, written = table.ordinals, found["roman"]
    before = before if len(before) > 1 else ""
    plain = len(written) > 1 and not set(written) - set("IVX")
    if before in rules.kings or (plain and before[:1].isupper() and before.lower() not in table.no_noun):
        if value > rules.last_king:
            return cardinal(table, value)
        return ordinal(table, value, bool(re.fullmatch(rules.queens, before)))
    if plain and after and after.lower() not in table.no_noun:
        return ordinal(table, value, table.is_feminine(after.lower()), after)
    return None


def short_form(forms: Mapping[str, str], found: Match) -> str:
    """The words; the full stop of one that ends the text stays."""
    written, text = found["short"], found.string
    said = forms.get(written) or forms[written.lower()]
    if written[0].isupper() and found.start() == 0:
        said = said[0].upper() + said[1:]
    return said + "." * (written.endswith(".") and not text[found.end() :].strip())


def beginnings(forms: Iterable[str]) -> tuple[str, ...]:
    """The first words of short forms, as `Rules` looks them up."""
    return tuple({begin[0].lower() for form in forms if (begin := FIRST_WORD.match(form))})


def shortened(forms: Mapping[str, str], after: str) -> Rule:
    """The rule of a table of short forms, which stand before something."""
    pattern = rf"(?<!\w)(?P<short>(?i:{any_of(forms)})){after}"
    return Rule("a", pattern, partial(short_form, {**{key.lower(): said for key, said in forms.items()}, **forms}),
                words=beginnings(forms))  # fmt: skip


def sign(table: LanguageTable, found: Match) -> str:
    return f" {table.things.signs[found[0].strip(SPACES)]} "


def rules(table: LanguageTable) -> tuple[Rule, ...]:
    """In this order."""
    ordinals, things = table.ordinals, table.things
    read = partial
    of_the = rf"(?:d[a-z]{{1,2}}[{SPACES}]|d['’])?(?:la |les |los |el )?"
    name = rf"(?=[{SPACES}](?:{of_the}|(?:et|y|e)[{SPACES}]){CAPITAL})"
    signs = "".join(things.signs)
    return (
        shortened(things.anywhere, r"(?!\w)"),
        shortened(things.before_names, name),
        shortened(things.before_figures, rf"(?=(?:{GAP}:)?{GAP}[(+\dIVXLC])"),
        Rule("0", rf"(?<![\w.,])(?P<figure>\d{{1,4}})(?P<mark>(?P<feminine>{ordinals.feminine_mark})"
             rf"|(?:{ordinals.masculine_mark}))(?!\w)", read(marked, table)),
        Rule("0", r"(?<![\w.,])(?P<figure>\d{1,2})°(?!\w)", read(degree, table), "°"),
        Rule("a", rf"(?<![\w.])(?P<roman>[IVXLCDM]{{1,12}})(?P<mark>{ordinals.roman_mark})?(?![\w'’])",
             read(numeral, table)),
        Rule("a", rf"(?<![\w.])(?P<roman>[IVX])(?P<mark>{ordinals.roman_mark})(?![\w'’])", read(numeral, table),
             words=tuple(f"{letter}{mark}" for letter in "ivx" for mark in ("e", "er", "re"))),
        Rule(f"{signs} ", rf"{GAP}[{re.escape(signs)}]{GAP}(?=[\w\d(])", read(sign, table)),
    )  # fmt: skip
