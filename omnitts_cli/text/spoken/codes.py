"""What is read character by character: addresses, telephone numbers, versions, hashes, numbers of rooms and roads."""

from __future__ import annotations

import re

from omnitts_cli.text.numerals import cardinal, digits, pairs, whole
from omnitts_cli.text.spoken.rules import Match, Rule

SIGNS = {".": "dot", "/": "slash", "@": "at", "-": "dash", "_": "underscore", ":": "colon", "?": "question mark",
         "=": "equals", "&": "and", "#": "hash", "%": "percent", "~": "tilde", "+": "plus"}  # fmt: skip
TOLL_FREE = "800"  # the one group of a telephone number that people say as a number
FEWEST_GROUPED = 7
"""Digits in groups with dashes: below this they are counts, as in 4-4-2; from here on one long number."""

NUMBERED_PLACE = (
    r"(?:Room|Suite|Apartment|Apt\.?|Flight|Route|Highway|Interstate|Boeing|Airbus|Channel|Studio|Bus|Gate)"
)
STREET = (
    r"(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Place|Pl|Square|Sq|Highway|Hwy|Parkway"
    r"|Pkwy|Terrace|Way)\b"
)


def address(found: Match) -> str:
    text = re.sub(r"^(?:https?|ftp)://", "", found[0])
    words = re.sub(r"[^A-Za-z0-9]", lambda sign: f" {SIGNS.get(sign[0], '')} ", text.rstrip("/"))
    return re.sub(r"\d+", lambda run: f" {whole(run[0])} ", words)


def telephone(found: Match) -> str:
    """+1 (555) 123-4567: digit by digit, a comma between the groups."""
    groups = re.findall(r"\d+", found[0])
    words = ", ".join("eight hundred" if n == 1 and group == TOLL_FREE else digits(group)
                      for n, group in enumerate(groups))  # fmt: skip
    return f"plus {words}" if found[0].startswith("+") else words


def grouped(found: Match) -> str:
    """978-3-16-148410-0 is one long number; 4-4-2 are three small ones."""
    groups = found[0].split("-")
    if sum(map(len, groups)) < FEWEST_GROUPED:
        return ", ".join(whole(group) for group in groups)
    return ", ".join(" ".join("X" if c == "X" else digits(c) for c in group) for group in groups)


def card(found: Match) -> str:
    return ", ".join(digits(group) for group in re.split("[ -]", found[0]))


def version(found: Match) -> str:
    """v2.0.1 -> version two point zero point one."""
    words = " point ".join(whole(part) for part in found["parts"].split("."))
    return f"version {words}" if found["v"] else words


def network_address(found: Match) -> str:
    return " dot ".join(digits(part) if len(part) == 3 else whole(part) for part in found[0].split("."))


def spelled(found: Match) -> str:
    """9f8e7d6 -> nine f eight e seven d six."""
    return characters(found[0])


def identifier(found: Match) -> str:
    return ", ".join(characters(part) for part in found[0].split("-"))


def characters(text: str) -> str:
    return " ".join(digits(c) if c.isdigit() else c for c in text)


def place(found: Match) -> str:
    name = "Apartment" if found["place"].startswith("Apt") else found["place"]
    return f"{name} {pairs(int(found['figure']))}"


def house(found: Match) -> str:
    letter = f" {found['letter']}" if found["letter"] else ""
    return f"{pairs(int(found['figure']))}{letter}"


ADDRESSES = (
    Rule("a", r"(?:https?|ftp)://[^\s<>\"')]{0,2000}[\w/]|\bwww\.[\w.-]{1,200}\w", address),
    Rule("a0.+_-", r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.\w{1,24}){1,8}", address),
    Rule("a0", r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", identifier),
    Rule("0", r"\b0x[0-9a-fA-F]{1,16}\b", spelled, "a"),
    Rule("a0", r"\b(?=\d{0,40}[a-f])(?=[a-f]{0,40}\d)[0-9a-f]{7,40}\b", spelled),
)

RULES = (
    Rule("0", r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w]|\.\d)",
         network_address, "."),
    Rule("+", r"(?<![\w+])\+\d{1,3}[ .-]?(?:\(\d{1,5}\)[ .-]?)?\d{2,5}(?:[ .-]\d{2,8}){0,4}(?![\w-])", telephone),
    Rule("(", r"(?<![\w+(])\(\d{3,5}\) ?\d{3,4}[ .-]\d{3,4}(?![\w-])", telephone),
    Rule("0", r"(?<![\w.+-])1-\d{3}-\d{3}-\d{4}(?![\w-])", telephone, "-"),
    Rule("0", r"(?<![\w.+-])1-8\d\d-(?=[A-Z]{2})", lambda found: f"{telephone(found)}, ", "-"),
    Rule("0", r"(?<![\w.-])\d{3}([-. ])\d{3}[-. ]\d{4}(?![\w-])|(?<![\w.-])\d{3}-\d{4}(?![\w-])", telephone,
         "-. "),
    Rule("0", r"(?<![\w.,/-])0\d{1,4}(?:[ /-]\d{2,8}){1,4}(?![\w-]|[.,]\d)", telephone, " /-"),
    Rule("0", r"(?<![\w-])\d{4}(?:[ -]\d{4}){3}(?![\w-])", card, " -"),
    Rule("0", r"(?<![\w.-])\d{1,8}(?:-\d{1,8}){2,6}(?:-X)?(?![\w-])|(?<=[A-Z]-)\d{1,8}(?:-\d{1,8}){1,6}(?![\w-])",
         grouped, "-"),
    Rule("a", r"(?<![\w.-])(?P<v>v)\.? ?(?P<parts>\d{1,6}(?:\.\d{1,6}){1,5}|[1-5](?!\w)|7(?!\w)|9(?!\w))(?!\d|\.\d)",
         version),
    Rule("0", r"(?<![\w.])(?P<v>)(?!\d{1,3}(?:\.\d{3}){2,4}(?:,\d\d)?(?![\d.]))(?P<parts>\d{1,6}(?:\.\d{1,6}){2,6})"
         r"(?!\d|\.\d)", version, "."),
    Rule("0", r"(?<=\b[Cc]all )\d{3}\b|(?<=\b[Dd]ial )\d{3}\b", lambda found: digits(found[0])),
    Rule("0", r"(?<=\b[A-Z]{2} )\d{5}(?:-\d{4})?\b", card),
    Rule("0", r"(?<=\bcode )\d{4,}\b|(?<=\bPIN )\d{3,}\b|(?<=\baccount )\d{5,}\b|(?<=\bID )\d{4,}\b"
         r"|(?<=\bextension )\d{3,}\b", lambda found: digits(found[0])),
    Rule("a", rf"\b(?P<place>{NUMBERED_PLACE}) (?P<figure>[1-9]\d{{2,3}})(?![\w]|[.,:]\d)", place),
    Rule("0", rf"(?<![\w.,$€£-])(?P<figure>[1-9]\d{{2,3}})(?P<letter>[A-D])?(?= (?:[NSEW]\.? )?(?:[A-Z][a-z]+ ){{1,2}}"
         rf"{STREET})", house, " a"),
    Rule("0", r"\b(?P<figure>1080|720|480|360|1440|2160|240)(?=[pi]\b)", lambda found: pairs(int(found["figure"])),
         "a"),
    Rule("0", r"(?<![\d/])(?:24/7/365|24/7|9/11|50/50|20/20)(?![\d/])",
         lambda found: " ".join(pairs(int(part)) if len(part) == 3 else cardinal(int(part))
                                for part in found[0].split("/")), "/"),
)  # fmt: skip
