"""Money, fractions, powers, ranges and ratios. A number with a unit, or on its own, is in `measures.py`."""

import re

from omnitts_cli.text.numerals import cardinal, number, ordinal, pairs, whole, year
from omnitts_cli.text.spoken import around, decide, english
from omnitts_cli.text.spoken.dates import MONTHS, date_words
from omnitts_cli.text.spoken.figures import DASH, FIGURE, LARGE_WORD, adjective, amount, plain, scale
from omnitts_cli.text.spoken.rules import Match, Rule, Said
from omnitts_cli.text.spoken.units import (
    CURRENCIES,
    DOLLARS,
    MONEY,
    PER,
    POINT_IN_THOUSANDS,
    WITH_STOP,
    plural,
    unit_named,
)

COIN = f"[{''.join(MONEY)}]"
BETWEEN = DASH.pattern.removesuffix(r"(?=\.?\d)")
PARTS = {2: "half", 3: "third", 4: "quarter"}
OUT_OF = {5, 10, 20, 25, 50, 100}  # of how many points a score is; 18/20 is one, 3/20 too
FRACTIONS = {16, 32, 64, 100, 1000}  # beside those up to ten
METERS = {(4, 4), (3, 4), (6, 8), (2, 4), (12, 8), (7, 8), (5, 4), (9, 8), (7, 4), (5, 8), (2, 2)}
"""The beats of music, which are called by their numbers alone: a 4/4 beat."""
MUSIC = english.words(
    "minor major feel bpm tempo groove sharp flat clarinet guitar drums waltz march swing key beat time meter "
    "rhythm signature"
)
"""Near 6/8 they show that it is a beat."""
MEASURED = re.compile(r"(?:\d|\d ?(?:%|[ap]\.?m\.?)|\d ?(?:k|K|M|m|bn|B)|\d ?(?P<unit>[A-Za-zµμΩ°]{1,6}))\Z")
LONGEST_UNIT = 10


# ---- money


def money(found: Match) -> Said:
    one, hundredth = MONEY[found["coin"]]
    if found["land"]:
        one = f"{DOLLARS[found['land']]} {one}"
    low, high, large = found["low"], found["amount"], found["large"]
    single = adjective(found.string, found.start(), found.end())
    name = one if single else plural(one, "2")
    if low and "." in low and not large:
        return f"{exact(low, one, hundredth)} to {exact(high, one, hundredth)}"
    if low:
        return f"{amount(low)}{scale(found['low_large'])} to {amount(high)}{scale(large)} {name}"
    if large:
        return f"{amount(high)}{scale(large)} {name}"
    if hundreds := re.match(r"s(?!\w)", found.string[found.end() : found.end() + 2]):
        round_one = {"10": "tens", "100": "hundreds", "1000": "thousands", "1,000": "thousands"}.get(high)
        return (f"{round_one} of {name}", found.end() + hundreds.end()) if round_one else None
    if found["coin"] in POINT_IN_THOUSANDS and re.fullmatch(r"[1-9]\d{0,2}\.000", high):
        high = high.replace(".", "")
    if single and "." not in high and not re.fullmatch(r"\d+,\d\d", high):
        return f"{amount(high)} {one}"
    return exact(high, one, hundredth)


def exact(figure: str, one: str, hundredth: str) -> str:
    """Money to the last cent: 5.50, also with the continental comma."""
    if re.fullmatch(r"\d+,\d\d", figure):
        figure = figure.replace(",", ".")
    units, _, cents = plain(figure).replace(",", "").partition(".")
    if len(cents) == 1 and units in ("", "0"):  # 0.5
        cents += "0"
    if len(cents) == 3 and cents[2] == "0":  # 20.500
        cents = cents[:2]
    if len(cents) != 2 or not hundredth:
        return f"{amount(figure)} {plural(one, figure)}"
    return coins(units or "0", cents, one, hundredth)


def coins(units: str, cents: str, one: str, hundredth: str) -> str:
    """5 and 20 -> five dollars and twenty cents; nothing is said of the part that is zero."""
    words = [f"{whole(units)} {plural(one, units)}"] if int(units) or not int(cents) else []
    if int(cents):
        words.append(f"{cardinal(int(cents))} {plural(hundredth, str(int(cents)))}")
    return " and ".join(words)


def money_after(found: Match) -> str:
    """3,50 €, 1.000.000 €."""
    one, hundredth = MONEY[found["coin"]]
    return exact(found["amount"], one, hundredth)


def currency(found: Match) -> Said:
    """5 USD and USD 5, Rs. 500."""
    code = found["code"] or found["code2"]
    name = CURRENCIES.get(code)
    if name is None:
        return None
    figure = found["after"] or found["before"]
    large = found["large"] or found["large2"]
    return f"{amount(figure)}{scale(large)} {plural(name, '2' if large else figure)}"


# ---- fractions


def proper(above: int, below: int, one: str = "one") -> str:
    part = PARTS.get(below, ordinal(below))
    several = "halves" if part == "half" else f"{part}s".removeprefix("one ")
    return f"{one} {part.removeprefix('one ')}" if above == 1 else f"{cardinal(above)} {several}"


def mixed(found: Match) -> Said:
    """2 3/4 and 2¾ -> two and three quarters."""
    above, below = int(found["above"]), int(found["below"])
    if not 0 < above < below:
        return f"{whole(found['whole'])} {above_below(above, below)}"
    words = f"{whole(found['whole'])} and {proper(above, below, 'an' if below == 8 else 'a')}"
    unit = FRACTION_UNIT.match(found.string, found.end())
    return parts_of_unit(found, words, "1" if unit and adjective(found.string, found.start(), unit.end()) else "2")


def fraction(found: Match) -> Said:
    text, start, end = found.string, found.start(), found.end()
    above, below = int(found["above"]), int(found["below"])
    if decide.STREET_AFTER.match(text, end) or around.word_before(text, start) in ("flat", "unit", "apt", "apartment"):
        return f"{cardinal(above)} slash {cardinal(below)}"
    kind = decide.stroke(text, start, end, above, below)
    if above >= 5 * below and above > 20 and CRICKET.search(text[max(0, start - 20) : start]):
        return f"{cardinal(above)} for {cardinal(below)}"
    if kind == "of":
        return f"{cardinal(above)} out of {cardinal(below)}"
    if kind == "date":
        return date_words(below, above, None) if above <= 12 else f"the {ordinal(above)} of {MONTHS[below - 1]}"
    if (above, below) in METERS and MUSIC & set(around.before(text, start, 3) + around.after(text, end, 3)):
        return f"{cardinal(above)} {cardinal(below)}"
    return not_of_music(found, above, below)


def not_of_music(found: Match, above: int, below: int) -> Said:
    """Of a fraction that is neither a date nor a beat: an ordinal, a month of a year, a share, or parts of a unit."""
    text, start, end = found.string, found.start(), found.end()
    if re.match(r"(?:th|TH|rd|RD|nd|ND|st)s?\b", text[end : end + 4]) and 0 < above < below:
        return proper(above, below), end + 2
    if re.match(r"0\d", found["above"]) or found["below"][0] == "0":
        return month_and_year(found)
    if above > below and re.match(" ?=", text[end : end + 2]):
        return f"{cardinal(above)} divided by {cardinal(below)}"
    if below == 10 and above < 10 and rating(text, start, end):
        return f"{cardinal(above)} out of ten"
    if above + below == 100 and (
        around.word_after(text, end) in HUNDRED or (above % 5 == 0 and around.word_before(text, start))
    ):
        return f"{cardinal(above)} {cardinal(below)}"
    words = (
        "half" if (above, below) == (1, 2) and re.match("-[a-z]", text[end : end + 2]) else above_below(above, below)
    )
    return parts_of_unit(found, words, "1" if above < below else "2")


CRICKET = re.compile(r"(?:^|[\s,(])[A-Z][a-z]+ \Z")


def month_and_year(found: Match) -> str | None:
    """Of a card: expires 09/26; and replaced 5/03."""
    valid = around.word_before(found.string, found.start()) in VALID_UNTIL
    past = found["above"][0] != "0" and int(found["above"]) <= 12 and around.before(found.string, found.start())
    if not valid and not past:
        return None
    return f"{MONTHS[int(found['above']) - 1]} {year(2000 + int(found['below']))}"


def decimal_comma(found: Match) -> Said:
    """2,5 Liter: the comma of the Continent, before a unit."""
    figure = f"{found['whole']}.{found['part']}"
    unit = unit_named(found["unit"])
    name = plural(unit, figure) if unit else found["unit"]
    return f"{amount(figure)} {name}", found.end()


def rating(text: str, start: int, end: int) -> bool:
    """It's great, 9/10; a solid 7/10."""
    judged = around.word_before(text, start) in JUDGED
    after = re.match(r"(?:[.!]*(?:$|\s[A-Z])|,? (?:would|from|for|imo|rating|score)\b)", text[end : end + 8])
    return bool(after) and (judged or text[:start].endswith((", ", ": ", "! ", "— ")))


JUDGED = frozenset("solid easy gave rated rating score scored honest a".split())


HUNDRED = ("rule", "split", "mix", "blend", "ratio", "chance", "partnership", "portfolio", "odds")
VALID_UNTIL = ("expires", "exp", "expiration", "expiry", "valid", "thru")
FRACTION_UNIT = re.compile(
    r"(?: ?|-)(?P<unit>(?:fl|sq|cu)\.? [a-z]{1,2}\b|in(?=\.)|(?!in\b)[A-Za-z]{2,4}|(?<= )s\b)(?![\w/])(?:\."
    r"(?= [a-z(]|,))?"
)


def parts_of_unit(found: Match, words: str, count: str) -> Said:
    """A fraction and its unit: a quarter teaspoon, one and a half pounds."""
    text, end = found.string, found.end()
    unit = FRACTION_UNIT.match(text, end)
    cooking = re.match(r" ([cTt])(?:\.(?= [a-z+&])|(?=\)? ))", text[end : end + 6])
    cup = cooking and cooking[1] == "c" and re.match(r" c [a-z]{3}", text[end : end + 6])
    if cooking and (cup or cooking[0].endswith(".") or english.FOOD & set(around.after(text, end + 2, 2))):
        return f"{words} {plural(WITH_STOP[cooking[1]], count)}", end + cooking.end()
    if not unit:
        sign = re.match('["″](?= |$)', text[end : end + 2])
        earlier = text[max(0, found.start() - around.REACH) : found.start()]
        opened = len(OPENING.findall(earlier)) - len(CLOSING.findall(earlier))
        return (f"{words} inch", end + 1) if sign and (opened < 1 or text.count('"') % 2) else words
    name = "inch" if unit["unit"] == "in" else unit_named(unit["unit"].replace(".", ""))
    if name is None:
        return words
    return f"{words} {plural(name, count)}", unit.end()


OPENING, CLOSING = re.compile(r'(?:\A|[\s(])"'), re.compile(r'(?<=[A-Za-z.,!?])"')
"""Quotation marks, beside those that are inches."""


def above_below(above: int, below: int) -> str:
    if above == below and below in OUT_OF:
        return f"{cardinal(above)} out of {cardinal(below)}"
    if 0 < above < below and (below <= 10 or above == 1 or below in FRACTIONS - OUT_OF):
        return proper(above, below)
    if 0 < above < below and below in OUT_OF:
        return f"{cardinal(above)} out of {cardinal(below)}"
    if 1990 <= above <= 2039 and below > 99:
        return f"{year(above)} slash {pairs(below)}"
    return f"{cardinal(above)} over {cardinal(below)}"


def divided(found: Match) -> str | None:
    """10 / 2 = 5, 4.5/5 stars, 12/0.5."""
    if "." in found["below"]:
        if not around.computed(found.string, found.start(), found.end()):
            return None  # 2.4/2.6
        return f"{number(found['above'])} over {number(found['below'])}"
    if "." in found["above"]:
        return f"{number(found['above'])} out of {found['below'] and cardinal(int(found['below']))}"
    return f"{cardinal(int(found['above']))} divided by {cardinal(int(found['below']))}"


# ---- powers


UNIT_AFTER = re.compile(r" (?P<unit>[A-Za-zΩµ]{1,4})(?:/(?P<per>[A-Za-z]{1,3}))?(?!\w)")


def power(found: Match) -> Said:
    exponent = found["exponent"]
    if exponent in ("2", "3"):
        return " squared" if exponent == "2" else " cubed"
    sign = {"-": "minus ", "+": ""}.get(exponent[0], "")
    digit = exponent.lstrip("+-")
    words = f" to the power of {sign}{whole(digit) if digit.isdecimal() else digit}"
    unit = UNIT_AFTER.match(found.string, found.end())
    if unit and (name := unit_named(unit["unit"])):
        tail = f" per {PER[unit['per']]}" if unit["per"] in PER else ""
        return f"{words} {plural(name, '2')}{tail}", unit.end() if tail or not unit["per"] else unit.end("unit")
    return words


def scientific(found: Match) -> Said:
    """6.02e23 -> six point zero two times ten to the power of twenty three."""
    if "E" in found[0] and not found["sign"] and len(found["figure"]) > 1 and "." not in found["figure"]:
        return None  # 27E1
    sign = "minus " if found["sign"] == "-" else ""
    words = f"{number(found['figure'])} times ten to the power of {sign}{cardinal(int(found['exponent']))}"
    unit = UNIT_AFTER.match(found.string, found.end())
    if unit and (name := unit_named(unit["unit"])) and (not unit["per"] or unit["per"] in PER):
        tail = f" per {PER[unit['per']]}" if unit["per"] else ""
        return f"{words} {plural(name, '2')}{tail}", unit.end()
    return words


# ---- lengths in feet, ratios, differences, ranges


def feet_and_inches(found: Match) -> str:
    feet, inches = found["feet"], found["inches"]
    return f"{cardinal(int(feet))} foot {amount(inches)}"


def ratio(found: Match) -> str:
    one, other = int(found["one"]), found["other"]
    if (
        24 < one < 100
        and re.fullmatch(r"[0-5]\d", other)
        and one + int(other) != 100
        and RACED.search(found.string[max(0, found.start() - 12) : found.start()])
    ):
        return f"{cardinal(one)} {'oh ' if other[0] == '0' else ''}{cardinal(int(other))}"
    verse = VERSE.search(found.string[max(0, found.start() - 24) : found.start()])
    return f"{whole(found['one'])} {'' if verse else 'to '}{number(other)}"


RACED = re.compile(r"\b(?:in|time|of|ran|run|finished|PB|PR|clocked|was|at):? \Z")
"""Before 52:14 they show that it is a time."""
VERSE = re.compile(rf"\b(?:{'|'.join(english.SCRIPTURE)})\.? \Z")


def difference(found: Match) -> str:
    """5 - 3 = 2: a minus, because something is equal to it."""
    return " minus "


def operand(found: Match) -> str | None:
    """2x - 5, b² - 4ac, x - 1 > 0: a minus between what is computed."""
    text, start, end = found.string, found.start(), found.end()
    before = re.search(r"(?:^|[\s(=+*/-])(?:(?P<letter>\d*(?:\.\d+)?[b-zA-Z])(?:\^\d|[²³])?|\d*[)])\Z",
                       text[max(0, start - 8) : start])  # fmt: skip
    after = re.match(r"(?:\d+(?:\.\d+)?)?[a-zA-Z]{0,2}(?:\^\d|[²³])?(?=$|[\s).,;?|])|\d", text[end : end + 12])
    spaced, computed = text[start] == " ", bool(re.search(r"[=+*^]", text[max(0, start - 12) : end + 12]))
    if (
        spaced
        and text[end : end + 1].isdigit()
        and "=" in text[max(0, start - 40) : start]
        and re.match(r"\d+[;)\]]", text[end:][:8])
    ):
        return " minus "
    if before and after and after[0] and (spaced or computed):
        return " minus "
    if computed and re.match(r"\d*[b-z]\b", text[end : end + 4]):
        return " minus "
    return None


def years(found: Match) -> str | None:
    """1939-1945, 1914-18, and the season 2024/25; a case or an invoice of a year."""
    end, text = found["until"], found.string
    street = decide.STREET_AFTER.match(text, found.end())  # 1201-88 Harbour St.
    if street or decide.numbered_case(text, found.start()) or text[: found.start()].endswith("#"):
        return None
    if len(end) == 4 and int(end) < int(found["from"]):
        return None
    if (
        len(end) == 2
        and int(end) <= int(found["from"][2:])
        and not (found["from"][:2] in ("19", "18") and int(end) <= 30)
    ):
        return None
    last = year(int(end)) if len(end) == 4 else cardinal(int(end)) if end[0] != "0" else f"oh {cardinal(int(end))}"
    return f"{year(int(found['from']))} {'' if found['sign'] == '/' else 'to '}{last}"


def dash(found: Match) -> str | None:
    """A dash between two amounts is a range; anything else stays."""
    text, start, end = found.string, found.start(), found.end()
    measured = MEASURED.search(text[max(0, start - LONGEST_UNIT) : start])
    unit = measured and measured["unit"]
    if unit and unit not in ("s", "st", "nd", "rd", "th") and unit_named(unit) is None:
        measured = None
    if found[0] in (" -", " −"):
        named = around.word_before(text, start + 1) in ("fax", "tel", "ext", "cell", "in")
        return " dash " if named and re.match(r"\d{4}\b", text[end : end + 5]) else " minus "
    if not measured:
        return None
    return {"to": " to ", "dash": " dash ", "nothing": " ", "minus": " minus "}[decide.hyphen(text, start, end)]


def same_letters(found: Match) -> Said:
    """K21–K53: to."""
    low = re.search(rf"\b{found['letters']}(\d{{1,4}})\Z", found.string[max(0, found.start() - 7) : found.start()])
    return (" to ", found.start() + 1) if low else None


def short_year(found: Match) -> str:
    """'84 and '09."""
    figure = found["figure"]
    return f"oh {cardinal(int(figure))}" if figure[0] == "0" and figure != "00" else cardinal(int(figure))


RULES: tuple[Rule, ...] = (
    Rule("aR" + "".join(MONEY), rf"(?<![\w])(?P<land>{'|'.join(DOLLARS)})?(?P<coin>{COIN}) ?(?:(?P<low>{FIGURE})"
         rf"(?P<low_large>{LARGE_WORD})?{BETWEEN}{COIN}?(?=\d))?(?P<amount>\d+,\d\d(?![\d,])|{FIGURE})"
         rf"(?P<large>{LARGE_WORD})?", money),
    Rule("0.", r"(?<![\w.])(?P<amount>\d+,\d\d(?![\d,])|\d+\.\d\d(?!\d)|\.\d\d(?!\d)|\d{1,3}(?:\.\d{3}){1,4}(?:,\d\d)?)"
         r" ?(?P<coin>[€£¥₹])(?!\d)", money_after),
    Rule("a", rf"\b(?P<code>[A-Z]{{3}}\b|Rs\b|R\$)\.? ?(?P<after>{FIGURE})(?P<large>{LARGE_WORD})?(?P<before>)"
         r"(?P<code2>)(?P<large2>)", currency, words=("r", *(code.lower() for code in CURRENCIES))),
    Rule("0", rf"(?<![\w.])(?P<before>{FIGURE})(?P<large2>{LARGE_WORD})? (?P<code2>[A-Z]{{3}})\b(?P<after>)(?P<code>)"
         r"(?P<large>)", currency, " ,.akKmMbB"),
    Rule("0", r"(?<![\d/.,])(?P<whole>\d{1,4})(?: |-|\u2064)(?P<above>\d{1,2})[/⁄](?P<below>[1-9]\d{0,2})(?![\d/])",
         mixed, " -\u2064"),
    Rule("0", r"(?<![\w.,])(?P<whole>\d{1,3}),(?P<part>\d{1,2}) ?(?P<unit>[Ll]iter|[Mm]eter|[Gg]rad|Euro|k?g"
         r"|[kcm]?m|km/h|L|l)(?![\w/])",
         decimal_comma, ","),
    Rule("0", r"(?<![\w.])(?P<figure>\d{1,6}(?:\.\d+)?)[eE](?P<sign>[+-]?)(?P<exponent>\d{1,3})(?![\w.])",
         scientific, ".a"),
    Rule("^", r"(?<=[\w)])\^(?P<exponent>[+-]?\d{1,4}|[a-z])(?!\w)", power),
    Rule("0", r"(?<![\w.])(?P<from>1[1-9]\d\d|20\d\d)(?P<sign>[-–/])(?P<until>1[1-9]\d\d|20\d\d|\d\d)"
         r"(?![\w%]|[-–.,/]\d)", years, "-–/"),
    Rule("0", r"(?<![\d/.A-Z])(?P<above>\d{1,5})[/⁄](?P<below>[1-9]\d{0,4}|0[1-9])(?![\d/])", fraction, "/⁄"),
    Rule("0", r"(?<![\d/.])(?P<above>\d{1,2}\.\d)/(?P<below>5|10)(?![\d/.])", divided, "."),
    Rule("0", r"(?<![\w/.])(?P<above>\d{1,5}(?:\.\d{1,4})?)/(?P<below>\d{0,3}\.\d{1,4})(?![\d/])", divided, "/."),
    Rule(" ", r"(?<=[A-Za-z\d]) / (?=\d)",
         lambda found: " over " if around.computed(found.string, found.start(), found.end()) else None),
    Rule("0", r"(?<![\w/.])(?P<above>\d{1,6}) / (?P<below>[1-9]\d{0,5})(?= ?=)", divided, " "),
    Rule("0", r"(?<![\w.,])(?P<feet>\d) ?(?:['’′]|ft\.?) ?(?P<inches>1[01]|\d(?:\.5)?)"
         r"(?:\"|″|”|''| ?in\b\.?(?= [a-z])| ?in\b)", feet_and_inches, " a'’′"),
    Rule("0", r"(?<![\d:.])(?P<one>\d{1,4}):(?P<other>\d{1,4}(?:\.\d{1,2})?)(?![\d:]|\.\d)", ratio, ":"),
    Rule(" ", r"(?<=\d['’\"″′]) ?[x×] ?(?=\d)", lambda found: " by "),
    Rule(" -−–", r"(?<=\d) ?[-−–] ?(?=\d[\d.]{0,9} ?=)", difference),
    Rule(" -−–", r"(?<=[\w)²³]) [-−–] (?=[\w(])|(?<=[\w)²³])[-−–](?=[\w(])", operand),
    Rule(" -–—−", r"(?<=[\w.%°²³]) ?[-–—−] ?(?=[$€£¥₹~]?\.?\d)", dash),
    Rule("/", r"(?<=\d)/(?P<coin>[$€£¥])(?![\d.])", lambda found: f" per {MONEY[found['coin']][0]}"),
    Rule("0", r"(?<![\w./])(?P<count>\d{1,2})/(?=[$€£]\d)", lambda found: f"{cardinal(int(found['count']))} for ", "/"),
    Rule("-–", r"(?<=\d)[-–](?P<letters>[A-Z]{1,2})\d{1,4}\b", same_letters),
    Rule("-–—", r"(?<=\d[ap])[-–—](?=\d{1,2}(?::\d\d)?[ap]\b)|(?<=\d[a-h])[-–—](?=\d{1,3}[a-h]\b)"
         r"|(?<=\d[A-H])[-–—](?=\d{1,3}[A-H]\b)"
         r"|(?:(?<=noon)|(?<=midnight)|(?<=[ap]m)|(?<=[AP]M)|(?<=[ap]\.m\.))[-–—](?=\d|noon|midnight)",
         lambda found: " to "),
    Rule("'’", r"(?<!\w)['’](?P<figure>\d\d)(?![\w'’])", short_year),
)  # fmt: skip
