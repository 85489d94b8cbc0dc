"""What is read character by character: addresses, telephone numbers, versions, hashes, numbers of rooms and roads."""

import re

from omnitts_cli.text.numerals import cardinal, digits, pairs, whole, year
from omnitts_cli.text.spoken import around, english
from omnitts_cli.text.spoken.rules import Match, Rule
from omnitts_cli.text.spoken.units import unit_named

AIRLINES = "AA|UA|DL|BA|LH|AF|KL|QF|SQ|EK|QR|EY|TK|LX|NH|JL|CX|WN|VS"
TOLL_FREE = "800"  # the one group of a telephone number that people say as a number
FEWEST_GROUPED = 7
"""Digits in groups with dashes: below this they are counts, as in 4-4-2; from here on one long number."""


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
        named = found.string[: found.start()][-2:-1].isupper()  # ISO-8859-1
        return ", ".join(pairs(int(group)) if named and group[0] != "0" else whole(group) for group in groups)
    return ", ".join(" ".join("X" if c == "X" else digits(c) for c in group) for group in groups)


def card(found: Match) -> str:
    return ", ".join(digits(group) for group in re.split("[ -]", found[0]))


def version(found: Match) -> str:
    """v2.0.1 -> version two point zero point one."""
    words = " point ".join(part if part == "x" else whole(part) for part in found["parts"].split("."))
    return f"version {words}" if found["v"] else words


def wildcard(found: Match) -> str:
    """1.x: one point x."""
    return f"{' point '.join(whole(part) for part in found['parts'].split('.'))} point x"


def network_address(found: Match) -> str:
    first, *others = found[0].split(".")
    return " dot ".join((digits(first) if len(first) == 3 else whole(first), *map(digits, others)))


def spelled(found: Match) -> str:
    """9f8e7d6 -> nine f eight e seven d six."""
    return characters(found[0])


def identifier(found: Match) -> str:
    return ", ".join(characters(part) for part in found[0].split("-"))


def characters(text: str) -> str:
    return " ".join(digits(c) if c.isdecimal() else c.replace("a", "A") for c in text)


def flight(found: Match) -> str:
    """BA2490 and UA 837."""
    groups = found.groupdict()
    return f"{' '.join(groups['line'] or groups['one'])} {pairs(int(groups['figure'] or groups['model']))}"


def retirement_plan(found: Match) -> str:
    """401k, 403(b)."""
    return f"{pairs(int(found['figure']))} {(found['letter'] or found['letter2']).upper()}"


def case(found: Match) -> str:
    """CVE-2024-3094: the year, then the number."""
    return f"{found['name']} {year(int(found['year']))} dash {digits(found['figure'])}"


def said_by_digits(found: Match) -> str | None:
    """A PIN, a code or the end of a card's number, where the words before say so."""
    earlier = around.before(found.string, found.start(), 4)
    if not english.CALLED & set(earlier) or re.match(r"[.,]\d|%| ?(?:%|percent)", found.string[found.end() :][:9]):
        return None
    near = earlier[0] in english.CALLED or (
        earlier[0] in ("is", "in", "number", "no", "to", "was", "on") and len(earlier) > 1
    )
    if not near or (earlier[0] in ("to", "on") and len(found[0]) < 5) or "port" in earlier:
        return None
    letters, figure = re.fullmatch(r"([A-Za-z]{0,3})([\d ]+)", found[0]).groups()  # type: ignore[union-attr]
    said = ", ".join(digits(group) for group in figure.split())
    return f"{letters if letters.islower() else ' '.join(letters)} {said}".strip()


def extension(found: Match) -> str:
    figure = found["figure"] or found["figure2"]
    return f" extension {whole(figure) if len(figure) < 3 else digits(figure)}"


def extension_alone(found: Match) -> str | None:
    """RSVP to Jo x2290; not x100 of a formula."""
    formula = "=" in found.string[max(0, found.start() - around.REACH) : found.end() + around.REACH] or around.computed(
        found.string, found.start(), found.end()
    )
    return None if formula else f"extension {digits(found['figure'])}"


def formula(found: Match) -> str:
    """NaOH, CaCO3 and Mg2+: the letters one by one."""
    parts = re.findall(r"[A-Za-z]+|\d+|[+−-]", found[0])
    named = {"+": "plus", "-": "minus", "−": "minus"}
    return " ".join(named.get(part) or (whole(part) if part.isdecimal() else " ".join(part.upper())) for part in parts)


def caps_formula(found: Match) -> str | None:
    """H2SO4: the letters one by one."""
    parts = re.findall(r"[A-Z]|\d+", found[0])
    letters = [part for part in parts if part.isalpha()]
    if len(letters) < 2 or re.search(r"[A-Z]{2}\d{3}|\A[A-Z]{2}\d\d\Z", found[0]):
        return None
    return " ".join(part if part.isalpha() else whole(part) for part in parts)


ELEMENT = "(?:Na|Li|Mg|Ca|Al|Fe|Cu|Zn|Ag|Mn|Cl|Br|Si|Hg|Pb|Ba|Ti|Cr|Ni|[HCNOSPFIK])"


def mixed_code(found: Match) -> str | None:
    """1HGCM82633A004352: letters and digits one by one, where they change often."""
    if len(re.findall(r"\d+|[A-Z]+", found[0])) < 3 and not re.search(r"[A-Z]\d{5}", found[0]):
        return None
    return characters(found[0])


def paragraph_of_law(found: Match) -> str:
    """240.10b: two hundred forty point ten B."""
    words = " point ".join(whole(part) for part in (found["parts"] or found["parts2"]).split("."))
    return f"{words} {(found['letter'] or found['letter2'] or '').upper()}".strip()


def initials_after(found: Match) -> str | None:
    """2FA: two F A; not 1TB."""
    if unit_named(found["letters"]):
        return None
    if found["letters"] == "UP":
        return f"{cardinal(int(found['figure']))} up"
    return f"{cardinal(int(found['figure']))} {' '.join(found['letters'])}"


ADDRESSES: tuple[Rule, ...] = (
    Rule("a0", r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", identifier),
    Rule("0", r"\b0x[0-9a-fA-F]{1,16}\b", spelled, "a"),
    Rule("a0", r"\b(?=\d{0,40}[a-f])(?=[a-f]{0,40}\d)[0-9a-f]{7,40}\b", spelled),
)

RULES: tuple[Rule, ...] = (
    Rule("0", r"\b(?P<cold>\d{1,2})W-(?P<hot>\d\d)\b",
         lambda found: f"{cardinal(int(found['cold']))} W {cardinal(int(found['hot']))}", "a"),
    Rule("0", r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w]|\.\d)"
         r"|(?<![\w.])(?=\d{3}\.)\d{3}(?:\.\d{1,3}){3}(?![\w]|\.\d)",
         network_address, "."),
    Rule("+", r"(?<![\w+])\+(?=[\d ().-]{7,})\d{1,3}[ .-]?(?:\(\d{1,5}\)[ .-]?)?\d{2,5}(?:[ .-]\d{2,8}){0,4}(?![\w-])",
         telephone),
    Rule("(", r"(?<![\w+(])\(\d{3,5}\)[ -]?\d{3,4}[ .-]\d{3,4}(?![\w-])", telephone),
    Rule("0", r"(?<![\w.+-])1-\d{3}-\d{3}-\d{4}(?![\w-])", telephone, "-"),
    Rule("0", r"(?<![\w.+-])1-8\d\d-(?=[A-Z]{2})", lambda found: f"{telephone(found)}, ", "-"),
    Rule("0", r"(?<![\w.-])\d{3}([-. ])\d{3}[-. ]\d{4}(?![\w-])|(?<![\w.-])\d{3}-\d{4}(?![\w-])", telephone,
         "-. "),
    Rule("0", r"(?<![\w.,/-])(?!0[1-9]/[0-3]\d\b)0\d{1,4}(?:[ /-]\d{2,8}){1,4}(?![\w-]|[.,]\d)", telephone, " /-"),
    Rule("0", r"(?<![\w-])\d{4}(?:[ -]\d{4}){3}(?![\w-])", card, " -"),
    Rule("0", r"(?<![\w.,-])\d{3,4}(?= \d{3,4} [\d ]{0,24}\d{4}\b|[\d ]{4,24}\d{4}\b)(?: \d{3,4}){2,5}(?![\w,.-]\w)",
         card, " "),
    Rule("0", r"(?<![\w.-])\d{1,8}(?:-\d{1,8}){2,6}(?:-X)?(?![\w-])|(?<=[A-Z]-)\d{1,8}(?:-\d{1,8}){1,6}(?![\w-])",
         grouped, "-"),
    Rule("a", r"(?:(?<![\w.-])|(?<=\.\.))(?P<v>v)\.? ?(?P<parts>\d{1,6}(?:\.\d{1,6}){1,5}(?:\.x)?|[1-5](?!\w)|7(?!\w)|9"
         r"(?!\w))(?!\d|\.\d)",
         version),
    Rule("0", r"(?<![\w.])(?P<v>)(?!\d{1,3}(?:\.\d{3}){2,4}(?:,\d\d)?(?![\d.]))(?P<parts>\d{1,6}(?:\.\d{1,6}){2,6})"
         r"(?!\d|\.\d)", version, "."),
    Rule("a", r"(?<=\d{4} )x ?(?P<figure>\d{1,6})\b|(?<=\d{4})x(?P<figure2>\d{1,6})\b", extension,
         words=("x",)),
    Rule("a", r"(?<![\w*=+(-])x(?!(?:264|265|448|509|25519)\b)(?P<figure>[1-9]\d{2,4})(?P<figure2>)"
         r"(?![\w=*+^/)-]|\.\w)", extension_alone, words=("x",)),
    Rule("a", r"(?<=\b)(?P<name>[A-Z]{3,4})-(?P<year>(?:19|20)\d\d)-(?P<figure>\d{1,7})\b", case),
    Rule("a", r"\b(?P<line>[A-Z]{2})(?P<figure>[1-9]\d{2,3})\b|\b(?P<one>[A-Z])(?P<model>[1-9]\d\d)(?=neo\b|\b)",
         flight),
    Rule("a", r"\b(?P<line>RTX|GTX|RX|MP) (?P<figure>[1-9]\d{3})\b", flight),
    Rule("a", rf"\b(?P<line>{AIRLINES}) (?P<figure>[1-9]\d{{1,3}})\b(?!,\d)", flight),
    Rule("0", r"\b(?P<figure>401|403|457|529)(?:\((?P<letter>[kb])\)|(?P<letter2>[kKb])\b)", retirement_plan,
         "a("),
    Rule("a0", r"(?<![\w.,$-])(?:[A-Za-z]{0,3}\d{3,}|\d{3}[ ]\d{3})\b(?!-\d| \d)", said_by_digits),
    Rule("a", r"(?<![A-Za-z-])(?=[A-Z]{0,6}\d)(?:[HCNOSPFIK]\d{0,2}){2,8}(?![\w-])", caps_formula),
    Rule("a", rf"(?<![A-Za-z_-])(?!NaN\b)(?P<formula>(?=[A-Z\d]{{0,9}}[A-Z][a-z])(?:{ELEMENT}\d{{0,2}}){{2,8}}|(?:Et"
         rf"|Me)OH)(?P<charge>[+−-](?!\w))?(?![\w-])"
         rf"|(?<![\w-])(?P<ion>{ELEMENT}\d?\+|(?:Cl|Br|OH)[-−])(?![\w+])", formula),
    Rule("a0", r"(?<![\w-])(?=[A-Z]{0,8}\d)(?=\d{0,8}[A-Z])[A-Z0-9]{8,24}(?![\w-])", mixed_code),
    Rule("0", r"(?<![\w.,-])(?P<figure>\d)(?P<letters>(?!st\b|nd\b)[A-Z]{2})\b", initials_after, "a"),
    Rule("a", r"\b(?P<land>D|A|F|CH|I)-(?P<code>\d{5})(?= [A-Z])",
         lambda found: f"{' '.join(found['land'])} {digits(found['code'])}"),
    Rule("0", r"(?<=\bHTTP )[1-5]\d\d\b|(?<=\b[Ee]rror )[1-5]\d\d\b|(?<=\b[Ss]tatus )[1-5]\d\d\b"
         r"|(?<=\bchmod )[0-7]{3}\b"
         r"|\b404(?= (?:page|pages|error|errors|not|Not|on|when|for)\b)",
         lambda found: pairs(int(found[0])) if found[0][0] != "0" else digits(found[0])),
    Rule("0", r"(?<=\bthe )[2-9]11\b(?! [a-z]+s\b)|\b911(?= (?:call|calls|operator|dispatcher|center)\b)",
         lambda found: digits(found[0])),
    Rule("0", r"(?<=CFR )(?P<parts>\d{1,4}\.\d{1,4})(?P<letter>[a-z]?)\b"
         r"|(?<=§ )(?P<parts2>\d{1,4}\.\d{1,4})(?P<letter2>[a-z])\b",
         paragraph_of_law, "."),
    Rule("0", r"(?<=\b[Cc]all )\d{3}\b|(?<=\b[Dd]ial )\d{3}\b", lambda found: digits(found[0])),
    Rule("0", r"(?<=\b[A-Z]{2} )\d{5}(?:-\d{4})?\b|(?<=\b[A-Z]{2}, )\d{5}(?:-\d{4})?\b", card),
    Rule(".", r"(?<=\d)\.(?=[A-Z]\d)", lambda found: " point "),
    Rule("0", r"(?<![\w.])(?P<parts>\d{1,4}(?:\.\d{1,4}){0,3})\.(?:x|X|\*)(?![\w*])", wildcard, "."),
    Rule("0", r"(?<=#)\d{6,}\b|(?<=\d-)\d{6,}\b|(?<=\ba/c )\d{5,}\b"
         r"|(?<![\w.,])(?!\d{0,9}0000\b)\d{8,9}(?!\d|[\w.,]\d|%)",
         lambda found: digits(found[0])),
    Rule("0", r"(?<=\bcode )\d{4,}\b|(?<=\bPIN )\d{3,}\b|(?<=\baccount )\d{5,}\b|(?<=\bID )\d{4,}\b"
         r"|(?<=\bextension )\d{3,}\b", lambda found: digits(found[0])),
    Rule("0", r"\b(?P<figure>1080|720|480|360|1440|2160|240)(?=[pi]\b)", lambda found: pairs(int(found["figure"])),
         "a"),
    Rule("0", r"(?<![\d/])(?:24/7/365|24/7|24-7(?!-)|7/11|50-50|9/11|50/50|20/20)(?![\d/])",
         lambda found: " ".join(pairs(int(part)) if len(part) == 3 else cardinal(int(part))
                                for part in re.split("[-/]", found[0])), "-/"),
)  # fmt: skip
