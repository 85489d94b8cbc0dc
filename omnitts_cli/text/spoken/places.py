"""Addresses: streets, towns and their states, and what is numbered in a building."""

from __future__ import annotations

import re

from omnitts_cli.text.numerals import pairs
from omnitts_cli.text.spoken import around, english
from omnitts_cli.text.spoken.rules import Match, Rule

SHORT_STREETS = {short: long for short, long in english.STREETS.items() if short != long and short not in ("St", "Dr")}
STREET = "|".join(english.STREETS)
NAME_BEFORE = re.compile(r"(?:[A-Z][A-Za-z'’]+|\d(?:st|nd|rd|th)) \Z")
HOUSE_BEFORE = re.compile(r"\b\d{1,5}[A-Z]? (?:[NSEW]\.? )?(?:[A-Z][\w'’.]* ){1,3}\Z")
ORDINAL_BEFORE = re.compile(r"\d(?:st|nd|rd|th) \Z", re.IGNORECASE)
PLACED = re.compile(
    r"\b(?:in|from|to|near|at|of|outside|around|for|leave|left|visit|visited|[A-Z]?[a-z]+,|\d+[\w'’. ]{0,30},) "
    r"(?:[A-Z][\w.'’]+ ){0,2}[A-Z][\w.'’]+, \Z"
)
ALSO_WORDS = frozenset("OK OR IN ME HI OH MD MA PA ID DE AL LA CO".split())
"""States whose letters often mean something else after a comma."""


def before(found: Match) -> str:
    return found.string[max(0, found.start() - around.REACH) : found.start()]


def ends(found: Match) -> str:
    """The full stop of a short form, where it also ends the text or stands before a new sentence."""
    return "." if found[0].endswith(".") and not found.string[found.end() :].strip() else ""


def street(found: Match) -> str | None:
    """Fifth Ave, 12 Oak Ln., san tomas hwy."""
    earlier = before(found)
    if not (
        NAME_BEFORE.search(earlier) or (found["short"].islower() and around.word_before(found.string, found.start()))
    ):
        return None
    return english.STREETS[found["short"].capitalize()] + ends(found)


def drive_or_doctor(found: Match) -> str | None:
    """Elm Dr. is a street, Dr. Elm a person."""
    name_follows = re.match(r" [A-Z][a-z]", found.string[found.end() : found.end() + 3])
    earlier = before(found)
    if HOUSE_BEFORE.search(earlier) and not re.match(
        r" [A-Z][a-z]", found.string[found.end() : found.end() + 3] + "  "
    ):
        return "Drive" + ends(found)
    if NAME_BEFORE.search(earlier) and not name_follows:
        return "Drive" + ends(found)
    if found[0] == "Dr" and not re.match(r" [A-Z]", found.string[found.end() : found.end() + 2]):
        return None
    return "Doctor"


def saint_or_street(found: Match) -> str | None:
    """St. before a name is a saint, after one a street: 12 Main St. in St. Louis."""
    name_follows = around.name_after(found.string, found.end())
    earlier = before(found)
    if found["st"] == "st":
        return "street" if ORDINAL_BEFORE.search(earlier) else None
    if name_follows and not (HOUSE_BEFORE.search(earlier) or ORDINAL_BEFORE.search(earlier)):
        return "Saint"
    if NAME_BEFORE.search(earlier):
        return "Street" + ends(found)
    return "Saint" if name_follows else None


def compass(found: Match) -> str | None:
    """1211 E Arques Ave, 12 S 1st st, Pennsylvania Ave NW."""
    point, text = found["point"], found.string
    if len(point) == 2:
        ok = re.search(rf"(?:{STREET})\.? \Z", before(found)) or re.match(
            r" \d+(?:st|nd|rd|th)\b", text[found.end() :][:8]
        )
        named = STREET_NAME.match(text[found.end() : found.end() + around.REACH])
        return english.COMPASS[point] if ok or named else None
    following = text[found.end() : found.end() + around.REACH]
    return english.COMPASS[point] if STREET_NAME.match(following) else None


STREET_NAME = re.compile(rf" (?:(?:[A-Z][\w'’]* ){{1,3}}(?:{STREET})\b|\d{{1,3}}(?:st|nd|rd|th) (?:{STREET}|st|ave)\b)")


def state(found: Match) -> str | None:
    """Austin, TX; not Yes, OK."""
    name, text = found["state"], found.string
    if name not in english.STATES:
        return None
    zipped = re.match(r",? \d{5}\b", text[found.end() : found.end() + 8])
    earlier = before(found)
    if not zipped and name in ALSO_WORDS and not PLACED.search(earlier):
        return None
    if not zipped and not earlier.endswith(", "):
        return None
    return english.STATES[name]


def house(found: Match) -> str:
    letter = f" {found['letter'].upper()}" if found["letter"] else ""
    return f"{pairs(int(found['figure']))}{letter}"


def floor(found: Match) -> str:
    return ("floor" if found[0][0] == "f" else "Floor") + ends(found)


def before_name(found: Match) -> str:
    return english.BEFORE_NAMES[found["short"]]


def named_road(found: Match) -> str:
    """I-95, US-1."""
    letters = " ".join(found["road"])
    return f"{letters} {pairs(int(found['figure']))}"


NUMBERED = ("room suite apartment flight route highway interstate boeing airbus channel studio bus gate form unit flat "
            "locker cabin box hwy rte rt rm apt ste").split()  # fmt: skip
PLACE_WORDS = {
    "hwy": "Highway", "rte": "Route", "rt": "Route", "rm": "Room", "apt": "Apartment", "ste": "Suite",
}  # fmt: skip


def place(found: Match) -> str | None:
    if found["place"].lower() == "box" and not re.search(r"P\.? ?O\.? \Z", before(found)):
        return None
    name = PLACE_WORDS.get(found["place"].lower(), found["place"])
    return f"{name} {pairs(int(found['figure']))}"


RULES: tuple[Rule, ...] = (
    Rule("a", r"\b(?P<place>[A-Za-z]+)\.? (?P<figure>[1-9]\d{2,3})(?![\w]|[.,:]\d)", place, words=NUMBERED),
    Rule("0", rf"(?<![\w.,$-])(?P<block>\d{{1,3}})-(?P<figure>\d\d)(?= (?:[NSEW]\.? )?(?:[A-Z][\w'’]+ ){{1,3}}"
         rf"(?:{STREET})\b)",
         lambda found: f"{pairs(int(found['block']))} {pairs(int(found['figure']))}", "-"),
    Rule("a", r"\b(?P<road>I|US|SR|CR)-(?P<figure>\d{1,3})\b", named_road, words=("i", "us", "sr", "cr")),
    Rule("0", rf"(?<![\w.,$€£#-])(?P<figure>[1-9]\d{{1,4}})(?P<letter>[A-Za-z])?(?= (?:[NSEW]{{1,2}}\.? )?"
         rf"(?:[A-Z][\w'’]+ ){{1,3}}"
         rf"(?:{STREET}|hwy)\b| [NSEW]{{1,2}}\.? \d{{1,3}}(?:st|nd|rd|th)\b)", house, " a"),
    Rule("a", r"\b(?P<st>St|st)\b\.?(?=[\s,.!?;]|$)", saint_or_street, words=("st",)),
    Rule("a", r"\bDr\b\.?(?=[\s,.!?;]|$)", drive_or_doctor, words=("dr",)),
    Rule("a", r"\b(?P<short>[A-Z][a-z]+|hwy|blvd|pkwy|ave)\b\.?(?=[\s,.!?;)]|$)", street,
         words=tuple(short.lower() for short in SHORT_STREETS)),
    Rule("a", r"\b(?P<point>[NSEW])\b\.?(?= )", compass, words=("n", "s", "e", "w")),
    Rule("a", r"\b(?P<point>[NS][EW])\b(?=[\s,.]|$)", compass, words=("ne", "nw", "se", "sw")),
    Rule("a", r"(?<=[a-z.], )(?P<state>[A-Z]{2})\b(?=,? \d{5}\b|[.,;:!?)]|$| [a-z])", state,
         words=tuple(short.lower() for short in english.STATES)),
    Rule("a", r"(?<=[a-z]{3} )(?P<state>[A-Z]{2})\b(?= \d{5}\b)",
         state, words=tuple(s.lower() for s in english.STATES)),
    Rule("a", r"(?<=(?:st|nd|rd|th) )[Ff]l\b\.?", floor, words=("fl",)),
    Rule("a", r"\b(?P<short>Mt|Mts|Ft|Pt)\b\.?(?= [A-Z])", before_name, words=("mt", "mts", "ft", "pt")),
)  # fmt: skip
