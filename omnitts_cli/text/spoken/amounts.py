"""Quantities: money, measures, fractions, powers, ranges, ratios, and numbers on their own."""

from __future__ import annotations

import re

from omnitts_cli.text.numerals import cardinal, digits, number, ordinal, pairs, whole, year
from omnitts_cli.text.spoken.rules import Match, Rule
from omnitts_cli.text.spoken.units import CURRENCIES, DOLLARS, LARGE, MONEY, PER, PER_WORD, UNIT, UNITS, plural

FIGURE = (
    r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d\d)+,\d{3}(?!\d)(?:\.\d+)?|[1-9]\d{0,2}(?: \d{3}){2,4}(?![\d,])"
    r"|[1-9]\d{0,2} 000(?! ?\d)|\d{1,3}(?:[’']\d{3}){1,4}(?!\d)|\d{1,3}(?:_\d{3}){1,4}(?!\d)"
    r"|\d{1,3}(?:\.\d{3}){2,4}(?:,\d\d)?(?![\d.])"
    r"|\d+(?:\.\d+)?|\.\d+)"
)
COIN = f"[{''.join(MONEY)}]"
LARGE_WORD = r"(?: ?(?:million|billion|trillion|thousand)|(?: ?(?:bn|tn|mn)|k|K|mm|m|M|b|B|T))\b"
DASH = r" ?[-–—] ?"
PARTS = {2: "half", 3: "third", 4: "quarter"}
OUT_OF = {5, 10, 20, 25, 50, 100}  # of how many points a score is; 18/20 is one, 3/20 too
FRACTIONS = {16, 32, 64, 100, 1000}  # beside those up to ten
SQUARE = {"²": "square", "2": "square", "³": "cubic", "3": "cubic"}
SQUARED = {"²": "squared", "2": "squared", "³": "cubed", "3": "cubed"}
GENERATIONS = {"2K", "4K", "8K", "5K", "10K"}  # screens and runs, which people do not call thousands
RESOLUTION = re.compile(r"[1-9]\d{3}")
MEASURED = re.compile(rf"(?:\d|(?<=\d)(?:st|nd|rd|th)|\d ?(?:%|[ap]\.?m\.?|{UNIT})|\d ?(?:k|K|M|m|bn|B))\Z")
LONGEST_UNIT = 8
SINGULAR = re.compile(r"\b(?:an?|one|per|each|every)[ -](?:[a-z]+ )?\Z", re.IGNORECASE)
NOT_A_NOUN = re.compile(
    r" (?:a|an|and|at|away|by|before|after|each|every|for|from|if|in|into|is|it|less|long|more|of|off|on|or|over|per"
    r"|than|that|the|to|under|was|when|with|high|wide|tall|deep|old|ago|later|are|were|but|you|we|they|he|she|I)\b"
)


def plain(figure: str) -> str:
    """The digits of a figure with a point for the decimals: 1.234,50 and 1 234.50 -> 1,234.50 without separators."""
    if re.fullmatch(r"\d{1,3}(?:\.\d{3}){2,4}(?:,\d\d)?", figure):
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
    return f" {LARGE.get(large.strip().lower(), large.strip())}" if large else ""


def adjective(found: Match) -> bool:
    """Whether an amount stands before its noun: a $5 bill, a 10 km run."""
    before = found.string[max(0, found.start() - 20) : found.start()]
    after = found.string[found.end() : found.end() + 12]
    return bool(SINGULAR.search(before)) and bool(re.match(r"[ -][a-z]{3}", after)) and not NOT_A_NOUN.match(after)


def money(found: Match) -> str:
    one, hundredth = MONEY[found["coin"]]
    if found["land"]:
        one = f"{DOLLARS[found['land']]} {one}"
    low, high, large = found["low"], found["amount"], found["large"]
    if low:
        return f"{amount(low)}{scale(found['low_large'])} to {amount(high)}{scale(large)} {plural(one, '2')}"
    if large:
        return f"{amount(high)}{scale(large)} {one if adjective(found) else plural(one, '2')}"
    if re.fullmatch(r"\d+,\d\d", high):  # the continental comma
        high = high.replace(",", ".")
    units, _, cents = plain(high).replace(",", "").partition(".")
    if len(cents) != 2 or not hundredth:
        return f"{amount(high)} {one if adjective(found) else plural(one, high)}"
    return coins(units or "0", cents, one, hundredth)


def coins(units: str, cents: str, one: str, hundredth: str) -> str:
    """5 and 20 -> five dollars and twenty cents; nothing is said of the part that is zero."""
    words = [f"{whole(units)} {plural(one, units)}"] if int(units) or not int(cents) else []
    if int(cents):
        words.append(f"{cardinal(int(cents))} {plural(hundredth, str(int(cents)))}")
    return " and ".join(words)


def money_after(found: Match) -> str:
    """5 €, 3,50 €, 1.000.000 €."""
    one, hundredth = MONEY[found["coin"]]
    figure = plain(found["amount"])
    figure = figure.replace(",", ".") if re.fullmatch(r"\d+,\d\d", figure) else figure
    units, _, cents = figure.replace(",", "").partition(".")
    if len(cents) == 2 and hundredth:
        return coins(units or "0", cents, one, hundredth)
    return f"{amount(figure)} {plural(one, figure)}"


def cents(found: Match) -> str:
    return f"{amount(found['amount'])} {plural('cent', found['amount'])}"


def currency(found: Match) -> str:
    """5 USD and USD 5."""
    figure = found["after"] or found["before"]
    name = CURRENCIES[found["code"] or found["code2"]]
    large = found["large"] or found["large2"]
    return f"{amount(figure)}{scale(large)} {plural(name, '2' if large else figure)}"


def proper(above: int, below: int, one: str = "one") -> str:
    part = PARTS.get(below, ordinal(below))
    several = "halves" if part == "half" else f"{part}s".removeprefix("one ")
    return f"{one} {part.removeprefix('one ')}" if above == 1 else f"{cardinal(above)} {several}"


def mixed(found: Match) -> str:
    """2 3/4 and 2¾ -> two and three quarters."""
    above, below = int(found["above"]), int(found["below"])
    if not 0 < above < below:
        return f"{whole(found['whole'])} {above_below(above, below)}"
    return f"{whole(found['whole'])} and {proper(above, below, 'an' if below == 8 else 'a')}"


def fraction(found: Match) -> str:
    return above_below(int(found["above"]), int(found["below"]))


def above_below(above: int, below: int) -> str:
    if above == below and below in OUT_OF:
        return f"{cardinal(above)} out of {cardinal(below)}"
    if 0 < above < below and (below <= 10 or above == 1 or below in FRACTIONS - OUT_OF):
        return proper(above, below)
    if 0 < above < below and below in OUT_OF:
        return f"{cardinal(above)} out of {cardinal(below)}"
    return f"{cardinal(above)} over {cardinal(below)}"


def power(found: Match) -> str:
    exponent = found["exponent"]
    if exponent in ("2", "3"):
        return " squared" if exponent == "2" else " cubed"
    sign = {"-": "minus ", "+": ""}.get(exponent[0], "")
    digit = exponent.lstrip("+-")
    return f" to the power of {sign}{whole(digit) if digit.isdigit() else digit}"


def scientific(found: Match) -> str:
    """6.02e23 -> six point zero two times ten to the power of twenty three."""
    sign = "minus " if found["sign"] == "-" else ""
    return f"{number(found['figure'])} times ten to the power of {sign}{cardinal(int(found['exponent']))}"


def measure(found: Match) -> str:
    """5 km, 10 m/s², 5-10 mg/kg, 6 m²."""
    unit = UNITS[found["unit"]]
    if power := found["power"] or found["digit"]:
        unit = f"{SQUARE[power]} {unit}"
    several = plural(unit, "2" if found["low"] else found["much"])
    if not found["low"] and (found["hyphen"] or adjective(found)):
        several = unit
    words = f"{amount(found['much'])} {several}"
    if found["low"]:
        words = f"{amount(found['low'])} to {words}"
    if found["per"]:
        words += f" per {per_unit(found['per'], found['per_power'])}"
    return words


def per_unit(unit: str, power: str | None) -> str:
    """s² -> second squared; cm³ -> cubic centimeter."""
    if power is None:
        return PER[unit]
    return f"{PER[unit]} {SQUARED[power]}" if unit in ("s", "h") else f"{SQUARE[power]} {PER[unit]}"


def feet_and_inches(found: Match) -> str:
    feet, inches = found["feet"], found["inches"]
    return f"{cardinal(int(feet))} foot {amount(inches)}"


def prime(found: Match) -> str:
    unit = "inch" if found["mark"] in '″"' else "foot"
    return f"{amount(found['much'])} {plural(unit, found['much'])}"


def monitor(found: Match) -> str:
    """27" monitor: inches, unless the sign closes a quotation."""
    if found.string.count('"') != 1:
        return f'{amount(found["much"])}"'
    return f"{amount(found['much'])} {'inch' if adjective(found) else plural('inch', found['much'])}"


def per(found: Match) -> str:
    """/month after an amount; `per km²` where no amount stands directly before it, and `per km` as it is."""
    if found[0].startswith("/"):
        return f" per {per_unit(found['per'], found['power'])}"
    return f"per {per_unit(found['per'], found['power'])}" if found["power"] else found[0]


def percent(found: Match) -> str:
    low = f"{amount(found['low'])} to " if found["low"] else ""
    return f"{low}{amount(found['much'])} {'per mille' if found['sign'] == '‰' else 'percent'}"


def large_number(found: Match) -> str:
    """10M users, 50k, 7B."""
    if found[0] in GENERATIONS:
        return f"{amount(found['figure'])} K"
    return f"{amount(found['figure'])}{scale(found['large'])}"


def dimensions(found: Match) -> str:
    """1920x1080, 3 x 4 x 5: by. With an equals sign after it the sign is a product: times."""
    after = found.string[found.end() : found.end() + 3].lstrip()
    word = "times" if after.startswith("=") or ("×" in found[0] and " " in found[0]) else "by"
    parts = re.split(r" ?[x×] ?", found[0])
    long = all(RESOLUTION.fullmatch(part) for part in parts)
    return f" {word} ".join(pairs(int(part)) if long else number(part) for part in parts)


def ratio(found: Match) -> str:
    return f"{whole(found['one'])} to {whole(found['other'])}"


def difference(found: Match) -> str:
    """5 - 3 = 2: a minus, because something is equal to it."""
    return " minus "


def years(found: Match) -> str:
    """1939-1945, 1914-18, and the season 2024/25."""
    end = found["until"]
    last = year(int(end)) if len(end) == 4 else cardinal(int(end)) if end[0] != "0" else f"oh {cardinal(int(end))}"
    return f"{year(int(found['from']))} {'' if found['sign'] == '/' else 'to '}{last}"


def dash(found: Match) -> str:
    """A dash between two amounts is a range; anything else stays."""
    before = found.string[max(0, found.start() - LONGEST_UNIT) : found.start()]
    if found[0] in (" -", " −"):
        return " minus "
    return " to " if MEASURED.search(before) else found[0]


def nth(found: Match) -> str:
    return ordinal(int(found["figure"].replace(",", "")))


def bare(found: Match) -> str:
    """A number on its own; four digits without a comma are mostly a year."""
    figure = found["figure"]
    if re.fullmatch(r"1[1-9]\d\d|20\d\d", figure):
        return year(int(figure))
    return amount(figure)


def times(found: Match) -> str:
    return f"{amount(found['figure'])} times"


RULES = (
    Rule("a$€£¥₹", rf"(?<![\w])(?P<land>{'|'.join(DOLLARS)})?(?P<coin>{COIN}) ?(?:(?P<low>{FIGURE})"
         rf"(?P<low_large>{LARGE_WORD})?{DASH}{COIN}?(?=\d))?(?P<amount>\d+,\d\d(?![\d,])|{FIGURE})"
         rf"(?P<large>{LARGE_WORD})?", money),
    Rule("0.", rf"(?<![\w.])(?P<amount>\d+,\d\d(?![\d,])|{FIGURE}) ?(?P<coin>[€£¥₹])(?!\d)", money_after),
    Rule("0.", rf"(?<![\w.])(?P<amount>{FIGURE}) ?¢", cents),
    Rule("a0.", rf"\b(?P<code>{'|'.join(CURRENCIES)}) (?P<after>{FIGURE})(?P<large>{LARGE_WORD})?"
         rf"|(?<![\w.])(?P<before>{FIGURE})(?P<large2>{LARGE_WORD})? (?P<code2>{'|'.join(CURRENCIES)})\b", currency),
    Rule("0", r"(?<![\d/.,])(?P<whole>\d{1,4})(?: |-|\u2064)(?P<above>\d{1,2})[/⁄](?P<below>[1-9]\d{0,2})(?![\d/])",
         mixed,
         " -\u2064"),
    Rule("0", r"(?<![\w.])(?P<figure>\d{1,6}(?:\.\d+)?)[eE](?P<sign>[+-]?)(?P<exponent>\d{1,3})(?![\w.])", scientific,
         ".a"),
    Rule("^", r"(?<=[\w)])\^(?P<exponent>[+-]?\d{1,4}|[a-z])(?!\w)", power),
    Rule("0", r"(?<![\w.])(?P<from>1[1-9]\d\d|20\d\d)(?P<sign>[-–/])(?P<until>1[1-9]\d\d|20\d\d|\d\d)"
         r"(?![\w%]|[-–.,/]\d)", years, "-–/"),
    Rule("0", r"(?<![\d/.])(?P<above>\d{1,4})[/⁄](?P<below>[1-9]\d{0,3})(?![\d/])", fraction, "/⁄"),
    Rule("0", r"(?<![\w.,])(?P<feet>\d) ?(?:['’′]|ft\.?) ?(?P<inches>1[01]|\d(?:\.5)?)(?:\"|″|”|''| ?in\b)",
         feet_and_inches, " a'’′"),
    Rule("0.", rf"(?<![\w.,])(?P<much>{FIGURE}) ?(?P<mark>[′″])", prime),
    Rule("0.", rf"(?<![\w.,])(?P<much>{FIGURE})\"(?= [a-z])", monitor),
    Rule("0.", rf"(?<![\w.,])(?P<much>{FIGURE})-inch\b", lambda found: f"{amount(found['much'])}-inch"),
    Rule("0.", rf"(?<![\w.,])(?P<much>{FIGURE}) in\.(?= [a-z]|$)",
         lambda found: f"{amount(found['much'])} {plural('inch', found['much'])}"),
    Rule("0.", rf"(?:(?P<low>{FIGURE}){DASH}(?=\d))?(?P<much>{FIGURE}) ?(?P<sign>[%‰])", percent),
    Rule("0", r"(?<![\w.,])\d{1,5}(?:\.\d+)?(?: ?[x×] ?\d{1,5}(?:\.\d+)?){1,2}(?![\w.])", dimensions, " .a×"),
    Rule("0.", rf"(?<![\w.,])(?P<figure>{FIGURE}) ?[x×](?![\w])", times),
    Rule("0.", rf"(?:(?<![\w.,])(?P<low>{FIGURE}){DASH}(?=\d))?(?P<much>{FIGURE})(?: ?|(?P<hyphen>-))(?P<unit>{UNIT})"
         rf"(?:(?P<power>[²³])|(?<=m)(?P<digit>[23]))?(?:/(?P<per>{PER_WORD})(?P<per_power>[²³23])?)?"
         r"(?![\w/²³])(?:\.(?= [a-z]))?", measure),
    Rule("a/", rf"(?:(?<=\w )per |(?<=[\dkM])/)(?P<per>{PER_WORD})(?P<power>[²³])?(?![\w/])", per),
    Rule("0.", rf"(?<![\w.,])(?P<figure>{FIGURE})(?P<large>k|M|B|K| ?bn| ?mn)\b(?!-)", large_number),
    Rule("0", r"(?<![\d:.])(?P<one>\d{1,4}):(?P<other>\d{1,4})(?![\d:])", ratio, ":"),
    Rule(" -−–", r"(?<=\d) ?[-−–] ?(?=\d[\d.]{0,9} ?=)", difference),
    Rule(" -–—−", r"(?<=[\w.%°²³]) ?[-–—−] ?(?=[$€£¥₹~]?\.?\d)", dash),
    Rule("0", r"\b(?P<figure>\d{1,3}(?:,\d{3})+|\d{1,15})(?:st|nd|rd|th)\b", nth, ",a"),
    Rule("0.'’", rf"(?:(?<!\w)['’](?=\d\d(?![\w'’])))?(?P<figure>{FIGURE})", bare),
)  # fmt: skip
