"""Addresses: streets, towns and their states, and what is numbered in a building."""

import re

from omnitts_cli.text.numerals import digits, pairs
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
    sure = found[0].endswith(".") and found["short"] in ("Blvd", "Hwy", "Pkwy", "Expy", "Fwy", "Tpke")
    if not (
        sure
        or NAME_BEFORE.search(earlier)
        or (found["short"].islower() and around.word_before(found.string, found.start()))
    ):
        return None
    if found["short"] == "Cir" and ORDINAL_BEFORE.search(earlier):
        return "Circuit"
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
    region = re.match(r" ([A-Z][a-z]+)", following)
    if found[0].endswith(".") and region and region[1] in english.ONLY_STATES and following[region.end() :][:1] == ".":
        return f"{english.COMPASS[point]}ern"  # S. Calif.
    if found[0].endswith(".") and region and region[1] in english.REGIONS:
        return english.COMPASS[point]
    if re.search(rf"\b(?:{STREET})\.? \Z", before(found)) and re.match(
        r"[,;.]|\Z| (?:now|and|in|at|near|is)\b", following
    ):
        return english.COMPASS[point]
    if HOUSE_NUMBER.search(before(found)) and re.match(r" [A-Z][a-z]{2,}(?:[,.;]|\Z| (?:&|and)\b)", following):
        return english.COMPASS[point]
    if found[0] == point and ROAD_BEFORE.search(before(found)):
        return english.COMPASS[point].lower()
    if DISTANCE.search(before(found)) and re.match(r" (?:on|of|from|to|along)\b|[.,;]|$", following):
        return english.COMPASS[point].lower()
    return english.COMPASS[point] if STREET_NAME.match(following) else None


DISTANCE = re.compile(r"\d ?(?:miles?|mi\.?|km|kilometers|blocks?|feet|ft\.?|yards|min\.?|mins\.?|hrs?\.?|hours?) \Z")
STREET_NAME = re.compile(
    rf" (?:(?:[A-Z][\w'’]* ){{1,3}}(?:{STREET})\b|\d{{1,3}}(?:st|nd|rd|th) (?:{STREET}|st|ave|[A-Z][a-z]{{2,}})\b"
    r"|\d{1,3}(?:st|nd|rd|th)(?:[,.;]|\Z| (?:&|and|in|at)\b))"
)
HOUSE_NUMBER = re.compile(r"(?:\A|, |\b(?:at|to|from|on|near) )(?!(?:19|20)\d\d )\d{1,5} \Z")
ROAD_BEFORE = re.compile(r"\b(?:R(?:ou)?te?\.?|US|I|SR|CR|Hwy\.?|Highway|Interstate|Pike|M|Exit)[ -]?\d{1,3}[ ,(]* ?\Z")


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


def newspaper_state(found: Match) -> str | None:
    """Tampa, Fla. and Fla. alone."""
    short = found["short"]
    if short not in english.NEWSPAPER_STATES:
        return None
    zipped = re.match(r" \d{5}\b", found.string[found.end() : found.end() + 6])
    if short not in english.ONLY_STATES and not zipped and not re.search(r"[A-Z][a-z]+, \Z", before(found)):
        return None
    return english.NEWSPAPER_STATES[short] + ends(found)


def zip_code(found: Match) -> str | None:
    """Okla. 74101."""
    state = re.search(r"\b([A-Z](?:[a-z]+|\.[A-Z]))\. \Z", before(found))
    if not state or state[1] not in english.NEWSPAPER_STATES:
        return None
    return ", ".join(digits(group) for group in found[0].split("-"))


def party(found: Match) -> str | None:
    """(D-Mass.): Democrat of Massachusetts."""
    named = english.NEWSPAPER_STATES.get(found["state"].rstrip(".")) or english.STATES.get(found["state"])
    return f"{english.PARTIES[found['party']]} of {named}" if named else None


def province(found: Match) -> str:
    """Toronto, ON M5K 1A1; Fitzroy VIC 3065."""
    code = found["code"]
    return f"{english.PROVINCES[found['short']]} {digits(code) if code.isdecimal() else ''}".rstrip() + (
        "" if code.isdecimal() else " "
    )


def province_alone(found: Match) -> str | None:
    """Montréal QC, after what else is of an address."""
    return english.PROVINCES[found["short"]] if re.search(r", [A-Z][a-zé]+ \Z", before(found)) else None


def postcode(written: str) -> str:
    """OX1 4BG: the letters one by one, a number of two digits as one."""
    parts = re.findall(r"[A-Z]|\d+", written)
    return " ".join(part if part.isalpha() else pairs(int(part)) for part in parts)


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
         rf"(?:{STREET}|hwy)\b| [NSEW]{{1,2}}\.? \d{{1,3}}(?:st|nd|rd|th)\b| \d{{1,3}}(?:st|nd|rd|th) (?:{STREET})\b"
         r"| (?:Blvd|Boul|Avenida|Rue|Calle|Via)\b)", house, " a"),
    Rule("a", r"\b(?P<st>St|st)\b\.?(?=[\s,.!?;]|$)", saint_or_street, words=("st",)),
    Rule("a", r"\bDr\b\.?(?=[\s,.!?;]|$)", drive_or_doctor, words=("dr",)),
    Rule("a", r"\b(?P<short>[A-Z][a-z]+|hwy|blvd|pkwy|ave)\b\.?(?=[\s,.!?;)]|$)", street,
         words=tuple(short.lower() for short in SHORT_STREETS)),
    Rule("a", r"\b(?P<point>[NSEW])\b\.?(?=[ ,;]|$)", compass, words=("n", "s", "e", "w")),
    Rule("a", r"\b(?P<point>[NS][EW])\b(?=[\s,.]|$)", compass, words=("ne", "nw", "se", "sw")),
    Rule("a", r"(?<=[a-z.], )(?P<state>[A-Z]{2})\b(?=,? \d{5}\b|[.,;:!?)]|$| [a-z])", state,
         words=tuple(short.lower() for short in english.STATES)),
    Rule("a", r"(?<=[a-z]{3} )(?P<state>[A-Z]{2})\b(?= \d{5}\b)",
         state, words=tuple(s.lower() for s in english.STATES)),
    Rule("0", r"(?<=[A-Za-z]\. )\d{5}(?:-\d{4})?\b", zip_code),
    Rule("a", r"(?<=\bNY, )NY\b", lambda found: "New York", words=("ny",)),
    Rule("a", r"(?<=[(, ])(?P<party>[DRI])[-–](?P<state>[A-Z]\.[A-Z]\.|[A-Z][a-z]+\.?|[A-Z]{2})(?=[),.; ]|$)", party,
         words=("d", "r", "i")),
    Rule("a", r"\b(?P<short>[A-Z](?:[a-z]+|\.[A-Z]|\.Va))\.(?=[\s,;)]|$)", newspaper_state,
         words=tuple({short.split(".")[0].lower() for short in english.NEWSPAPER_STATES})),
    Rule("a", r"(?<=[A-Za-z.,] )(?P<short>[A-Z]{2}) (?=(?P<code>[A-Z]\d[A-Z]) ?\d[A-Z]\d\b)", province,
         words=tuple(short.lower() for short in english.PROVINCES if len(short) == 2)),
    Rule("a", r"(?<=[a-zé] )(?P<short>QC|BC|AB|SK|NS)(?P<code>)(?=[.,;]|$)",
         province_alone, words=("qc", "bc", "ab", "sk", "ns")),
    Rule("a", r"\b[A-Z]{1,2}\d[\dA-Z]? \d[A-Z]{2}\b", lambda found: postcode(found[0])),
    Rule("a", r"(?<=[A-Za-z.,] )(?P<short>VIC|NSW|QLD|TAS|WA|SA|ACT|NT) (?P<code>\d{4})\b", province,
         words=("vic", "nsw", "qld", "tas", "wa", "sa", "act", "nt")),
    Rule("a", r"(?:(?<=(?:st|nd|rd|th) )|(?<=[23]d ))[Ff]l\b\.?", floor, words=("fl",)),
    Rule("a", r"\b(?P<short>Mt|Mts|Ft|Pt|Boul|Bd)\b\.?(?= [A-Z])", before_name,
         words=("mt", "mts", "ft", "pt", "boul", "bd")),
)  # fmt: skip
