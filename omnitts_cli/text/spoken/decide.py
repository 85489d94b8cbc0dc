"""What is ambiguous by itself and decided by its neighbours: a letter after a number, a hyphen, a stroke.

Each decision looks at the classes of what is beside it first (a number, a capital, a sign), then at words.
"""

import re
from typing import Literal

from omnitts_cli.text.spoken import around, english
from omnitts_cli.text.spoken.units import unit_named

Letter = Literal["unit", "scale", "name", "degrees", "lasting"]
Hyphen = Literal["minus", "to", "nothing", "dash"]
Stroke = Literal["date", "of", "over", "fraction"]

LISTED = re.compile(r"\b([A-Za-z]{1,12})\.? ?#?(?:\d{1,4}[A-Za-z]?(?:, and |, | and | or | & |[-–/]| to )){1,4}\Z")
"""Further numbers of a list whose first has a label: seats 12A, 12B and 14C."""
STREET_AFTER = re.compile(
    rf" (?:[NSEW]\.? )?(?:[A-Z][\w'’]* ){{1,3}}(?:{'|'.join(english.STREETS)})\b| \d{{1,3}}(?:st|nd|rd|th)\b"
)
DATE = re.compile(r"(?:1[0-2]|0?[1-9])/(?:3[01]|[12]\d|0?[1-9])(?![\d/])")


def labelled(text: str, start: int) -> bool:
    """Whether a number is the name of something: gate 7, Fig. 2, Boeing 747; or of a house before its street."""
    word = around.word_before(text, start)
    if word in english.LABELS or word in english.MADE:
        return True
    listed = LISTED.search(text[max(0, start - around.REACH) : start])
    return bool(listed) and listed[1].lower() in english.LABELS  # type: ignore[index]


def letter_after_number(text: str, start: int, figure: str, gap: str, letter: str, end: int) -> Letter:
    """What a single letter after a number is. `start` is where the number begins, `end` where the letter ends."""
    listed = text[end : end + 1] == ":" and letter != "g"  # H: 80 L: 65, but 190 g: warm
    if labelled(text, start) or STREET_AFTER.match(text, end) or listed or coded(text, start):
        return "name"
    if letter in "BMTkKbmG" and not gap and (chosen := scale(text, start, figure, letter, end)):
        return chosen
    following = around.word_after(text, end)
    if letter in "md" and (around.before(text, start)[:1] or [""])[0] in english.LASTING:
        return "lasting"
    if letter == "A":
        return "unit" if "." in figure or following in english.AMPERES or electric(text, start, end) else "name"
    if letter == "N":
        near = around.before(text, start, 4) + around.after(text, end, 3)
        return "unit" if "." in figure or english.FORCES & set(near) else "name"
    if letter in "CF":
        return degrees(text, start, figure, gap, end)
    return "name" if (letter in "BMTKG" and not gap) or letter in "BMTKGkbDEHIOPQRSUXYZ" else "unit"


def coded(text: str, start: int) -> bool:
    """Whether a number goes on with what stands before it: XR-250B, i5-13600K; not GPT-7B."""
    before = text[max(0, start - 6) : start]
    letters = re.search(r"\b([A-Z]{1,4})-\Z", before)
    if letters:
        return letters[1].lower() not in english.NETWORKS
    return before[-1:].isalnum() or bool(re.search(r"[A-Za-z]\d-\Z", before))


def scale(text: str, start: int, figure: str, letter: str, end: int) -> Letter | None:
    """Thousands, millions and billions; None where the letter may still be a unit."""
    earlier, later = around.before(text, start, 2), around.after(text, end, 2)
    counted = bool(english.COUNTED_NOUNS & set(later)) or "." in figure or text[end : end + 1] == "+"
    near = counted or bool(earlier and earlier[0] in english.ABOUT) or text[:start].endswith(("~", "≈"))
    if letter in "kK":
        return "name" if re.fullmatch(r"[1-9]\d{3,}", figure) else "scale"  # 5600K is a color of light
    if letter == "m":
        return "scale" if later and (later[0] in english.COUNTED_NOUNS) and later[0] not in LENGTHS else None
    if letter == "M":
        return "scale" if counted or figure != "3" else "name"
    if letter == "B" and not re.match(r"0\d", figure):
        return "scale" if near or english.NETWORKS & set(earlier) or text[max(0, start - 1) : start] == "-" else "name"
    return "scale" if letter == "T" and (counted or near) else None


LENGTHS = english.words("run relay lines lanes years tons miles")
ELECTRIC = re.compile(r"\d ?(?:V|W|mA|kW|Ω|Ah|Hz)\b|\b[Aa]mps?\b|\b[Vv]olts?\b|\b[Cc]urrent\b")


def electric(text: str, start: int, end: int) -> bool:
    return bool(ELECTRIC.search(text[max(0, start - 24) : start] + " | " + text[end : end + 16]))


def degrees(text: str, start: int, figure: str, gap: str, end: int) -> Letter:
    """72 F and 5 C are temperatures beside words of heat, or if they look like one."""
    if re.match(r"[#♯♭/]|['’]s|\.(?:\d|[A-Z]| Supp)", text[end : end + 6]) or re.search(
        r"\d ?\Z", text[max(0, start - 2) : start]
    ):
        return "name"
    earlier = around.before(text, start, 4)
    if earlier and earlier[0] in ("vitamin", "type", "grade"):
        return "name"
    warm = bool(set(earlier) & english.HEAT)
    likely = gap == " " and ((len(figure) > 1 and figure[0] != "0") or "." in figure)
    return "degrees" if (warm and gap) or likely or (warm and len(figure) > 1) else "name"


# ---- hyphens


def hyphen(text: str, start: int, end: int) -> Hyphen:
    """What is said for a hyphen or dash between what ends at `start` and the number that begins at `end`."""
    left, right = text[max(0, start - 24) : start], text[end : end + 24]
    before, after = re.search(r"[^\s(,;\"“]*\Z", left), re.match(r"[$€£¥₹~]?([\d.,]*\d)", right)
    joined = start + 1 == end and text[start] == "-"
    run = before[0] if before else ""
    if not after or not joined:
        return "to"
    if (
        re.fullmatch(r"0\d+", run)
        or re.match(r"0\d\d", right)
        or around.word_after(text, end + len(after[1])) in ("punch", "combo", "formation", "count")
    ):
        return "nothing"
    if re.search(r"#\d{3,}\Z", run) or re.fullmatch(r"\d+(?:\.\d+){2,}", run) or numbered_case(text, start - len(run)):
        return "dash"
    if re.search(r"[A-Za-z]\d+\Z", run) and not re.fullmatch(r"[\d.,]*\d(?:[a-zA-Z]{1,4}|%)", run):
        return "nothing"
    if re.search(r"[a-z]-\d+\Z", run) or re.match(r"\d+-[a-z]", right):
        return "nothing"
    if re.fullmatch(r"7[0-8]7", run) or re.match(r"\d{3}[A-Z]{1,3}\b", right):
        return "nothing"  # 777-300ER
    maker = around.word_before(text, start - len(run))
    if maker in english.MADE or maker in ("room", "rm", "suite", "ste", "apt", "apartment", "unit", "ward"):
        return "nothing"
    return "to" if rises(run, after[1]) else "nothing"


def numbered_case(text: str, start: int) -> bool:
    """Whether a word before says that a number with a hyphen is the name of a paper: Policy #: 24-118."""
    named = re.search(r"\b([A-Za-z]+)(?:[.:]{0,2} ?#?:?|(?:,? [Nn]o\.?)?:?) ?\Z", text[max(0, start - 26) : start])
    return bool(named) and named[1].lower() in english.PAPERS  # type: ignore[index]


def rises(low: str, high: str) -> bool:
    """Whether two numbers can be a range or a score: 5-10 and 3-1, but not 978-0."""
    low, high = low.replace(",", "").lstrip("$€£¥₹~"), high.replace(",", "").rstrip(".")
    if not (re.fullmatch(r"\d+", low) and re.fullmatch(r"\d+", high)):
        return True
    if len(high) > len(low) + 3 or (len(high) > 1 and high[0] == "0" and len(low) > len(high)):
        return False
    return int(low) < int(high) or len(low) <= len(high) + 1


# ---- strokes


def stroke(text: str, start: int, end: int, above: int, below: int) -> Stroke:
    """What two numbers with a stroke between them are: 12/25 a date, 3/5 times "three out of five"."""
    word, later = around.word_before(text, start), around.word_after(text, end)
    if STATISTIC.match(text, end) or COUNTED_OFF.search(text[max(0, start - 90) : start]):
        return "of"
    if later in english.TRIES or word in english.OUT_OF_BEFORE:
        return "of"
    if 12 < above <= 31 and 1 <= below <= 12 and word in english.DATED:
        return "date"
    if 1 <= above <= 12 and 1 <= below <= 31 and dated(text, start, end, word, later):
        return "date"
    return "fraction"


STATISTIC = re.compile(r" ?[★⭐☆]|, \d+ (?:yds?|yards|pts|points|reb|TDs?|ast)\b")
"""After 26/38: of passes, shots or stars."""
COUNTED_OFF = re.compile(r"(?i)(?:🧵 ?|\bthread\b.{0,80}[( ])\Z")


def dated(text: str, start: int, end: int, word: str, later: str) -> bool:
    if later in english.NOT_DATED:
        return False
    beside = re.match(r"(?: ?[-–] ?| thru | through )(?=\d{1,2}/\d)", text[end : end + 14])
    if beside and DATE.match(text, end + beside.end()):
        return True
    back = re.search(r"(\d{1,2}/\d{1,2})(?: ?[-–] ?| (?:to|and|or|through|until) )\Z", text[max(0, start - 15) : start])
    if back and word and word != "through" and not dated_before(text, start - len(back[0])):
        back = None
    if WEEKDAY_BEFORE.search(text[max(0, start - 12) : start]):
        return True
    if word == "of" and around.before(text, start, 2)[1:] in (["week"], ["wk"], ["night"], ["morning"], ["as"]):
        return True  # the week of 11/4
    return (
        word in english.DATED or bool(back and DATE.match(back[1])) or unlike_a_fraction(text, start, end, word, later)
    )


TIMED = re.compile(r",? (?:@|at) ?\d|,? \d{1,2}(?::\d\d| ?[ap]\.?m?\b)")
LIKE_FRACTIONS = frozenset((*range(13), 16))
"""What things are divided into, of the numbers that a day can have."""


def unlike_a_fraction(text: str, start: int, end: int, word: str, later: str) -> bool:
    """Whether two numbers inside a text can hardly be anything but a month and a day: 8/22, or 6/3 of a call."""
    above, below = map(int, re.split("[/⁄]", text[start:end]))
    if word == "of" and above > below:
        return not english.RATIOS & set(around.before(text, start, 2))
    if TIMED.match(text, end) or (below == 1 and word):
        return True
    if below in LIKE_FRACTIONS or not re.search(
        "[A-Za-z]", text[max(0, start - around.REACH) : start] + text[end:][:24]
    ):
        return False
    if below in (20, 25) and not (re.match("[,;)]", text[end : end + 1]) or text[:start].endswith(", ")):
        return False  # points of a test
    counted = len(later) > 3 and later.endswith("s") and later not in english.DATED
    measured = re.match(r"[-\"″'%°]", text[end : end + 1]) or unit_named(later) or later in ("inch", "cup")
    return not (counted or measured or word in english.SCORED or around.computed(text, start, end))


WEEKDAY_BEFORE = re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}\.?, \Z")


def dated_before(text: str, start: int) -> bool:
    return around.word_before(text, start) in english.DATED
