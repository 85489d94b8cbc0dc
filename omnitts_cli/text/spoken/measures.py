"""A number and what follows it: a unit, percent, feet and inches, a multiplier, an ordinal; or a number on its own."""

import re
from dataclasses import dataclass

from omnitts_cli.text.numerals import ordinal, pairs, year
from omnitts_cli.text.spoken import around, decide, english
from omnitts_cli.text.spoken.figures import AT, DASH, FIGURE, NOT_A_NOUN, adjective, amount, plain, scale
from omnitts_cli.text.spoken.rules import LETTER, Match, Rule, Said, kind_of
from omnitts_cli.text.spoken.units import LARGE, MONEY, PER, UNITS, WITH_STOP, plural, unit_named

UNIT_AT = re.compile(
    r"(?P<gap> ?|-)"
    r"(?P<unit>(?:sq|cu|fl)\.? (?:ft|in|m|km|mi|yd|oz)\b|[°º] ?[CFK](?![A-Za-z])|[°º]|[A-Za-zµμΩ]{1,9}(?![A-Za-z]))"
)
POWER_AT = re.compile(r"[²³]|(?<=m)[23](?!\d)|\^[23](?!\d)")
PER_AT = re.compile(r"/(?P<per>[A-Za-zµμ]{1,9})(?P<power>[²³23])?(?![\w/²³])|/(?=\d{1,4} ?(?P<again>[A-Za-z]{1,3})\b)")
STOP_INSIDE = re.compile(r"\.(?=[,;]| [a-z0-9(@&+=<$€£/]|[)/]| [NSEW]\b)")
STOP_OF_JOINED = re.compile(r"\.(?= [A-Z])")
LARGE_AT = re.compile(r" ?(?P<large>million|billion|trillion|thousand|bn|tn|mn)\b|(?P<letter>[kKMBmT])\b(?!-)")
PRIME_AT = re.compile(r" ?(?P<mark>[′″'’\"])")
BY_AT = re.compile(r" ?[x×] ?(?=\d)")
PARTS_AT = re.compile(r"\d{1,2}(?:[ -]\d{1,2})?/\d")
TIMES_AT = re.compile(r" ?[x×](?!\w)")
ORDINAL_AT = re.compile(r"(?:st|nd|rd|th|ST|ND|RD|TH)\b")
PERCENT_AT = re.compile(" ?([%‰])")
COIN_AT = re.compile(rf" ?([{''.join(set(MONEY) - {'$'})}¢])(?!\d)")
SQUARE = {"²": "square", "2": "square", "³": "cubic", "3": "cubic", "^2": "square", "^3": "cubic"}
SQUARED = {"²": "squared", "2": "squared", "³": "cubed", "3": "cubed"}
GENERATIONS = {"2K", "4K", "8K", "5K", "10K", "5k", "10k"}  # screens and runs, which people do not call thousands
RESOLUTION = re.compile(r"[1-9]\d{3}")


@dataclass(frozen=True)
class Figure:
    """A number at a place of a text; with `low`, the upper end of a range that began at `begin`."""

    text: str
    begin: int
    start: int
    end: int
    written: str
    low: str = ""

    @property
    def count(self) -> str:
        """What decides between one and several."""
        return "2" if self.low else self.written

    @property
    def words(self) -> str:
        return f"{amount(self.low)} to {amount(self.written)}" if self.low else amount(self.written)


def quantity(found: Match) -> Said:
    """A number with what follows it."""
    text, start, end = found.string, found.start(), found.end()
    figure = Figure(text, start, start, end, found[0])
    after = text[end : end + 1]
    if after in " -–—":
        if said := ranged(figure):
            return said
    for read in READERS.get(kind_of(after) if after else "", ()):
        if said := read(figure):
            return said
    return bare(figure)


def ranged(low: Figure) -> tuple[str, int] | None:
    """5-10 km: the unit, or the percent sign, belongs to both numbers."""
    dash = DASH.match(low.text, low.end)
    high = AT.match(low.text, dash.end()) if dash else None
    if high is None or low.text[max(0, low.start - 1) : low.start].isalnum():
        return None
    if low.text[high.end() : high.end() + 1] in ",.-":
        return None
    both = Figure(low.text, low.start, high.start(), high.end(), high[0], low.written)
    return percent(both) or measured(both)


# ---- what may follow


def percent(at: Figure) -> tuple[str, int] | None:
    found = PERCENT_AT.match(at.text, at.end)
    if not found:
        return None
    tail, end = per_tail(at.text, found.end())
    return f"{at.words} {'per mille' if found[1] == '‰' else 'percent'}{tail}", end


def money_after(at: Figure) -> tuple[str, int] | None:
    """5 €, 3,50 €, 99¢."""
    found = COIN_AT.match(at.text, at.end)
    if not found or at.text[max(0, at.start - 1) : at.start].isalnum():
        return None
    one = "cent" if found[1] == "¢" else MONEY[found[1]][0]
    tail, end = per_tail(at.text, found.end())
    return f"{at.words} {plural(one, at.count)}{tail}", end


def measured(at: Figure) -> tuple[str, int] | None:
    """5 km, 10 m/s², 5-10 mg/kg, 6 m², 12 V battery."""
    found = UNIT_AT.match(at.text, at.end)
    if not found:
        return None
    gap, written, end = found["gap"], found["unit"], found.end()
    if len(written) == 1 and written.isalpha() and written not in "µμΩ":
        return lettered(at, gap, written, end)
    unit = unit_named(written.replace(".", "").replace("º", "°").replace("° ", "°"))
    last = end == len(at.text) and re.search(r"\d inch|\d in[,;]", at.text)
    if (
        written == "in"
        and (last or INCHES_END.match(at.text, end))
        and at.written.replace(".", "").isdecimal()
        and len(at.written) < 5
    ):
        return f"{at.words} {plural('inch', at.count)}", end
    if unit is None and written in WITH_STOP:
        return dotted(at, written, end, gap)
    if written == "ac" and "." in at.written:
        unit = "acre"
    if unit == "pint" and english.TYPES & set(around.before(at.text, at.start, 6) + around.after(at.text, end, 2)):
        unit = "point"
    if unit == "centiliter" and "garlic" in around.after(at.text, end, 2):
        unit = "clove"
    if unit == "pint" and gap == "-" and around.word_after(at.text, end) in POINTS:
        unit = "point"
    if unit is None or (
        written == "pm"
        or (written == "pp" and "." in at.written)
        or (written == "Ma" and not re.match(r" (?:ago|old|BP)\b|[,;)]|\.?\s*$", at.text[end : end + 5]))
        or (written == "ct" and gap == " " and at.text[end : end + 1] not in ("", ",", "."))
    ):
        return None
    return with_unit(at, unit, gap, end)


INCHES_END = re.compile(r"[,;)]| ?[x×] ?\d| (?:wide|tall|long|deep|high|thick|diameter)\b")
POINTS = frozenset(
    "fg fgs range shot line lead play game arc field win deficit contest shooter attempt scale buck".split()
)


def with_unit(at: Figure, unit: str, gap: str, end: int) -> tuple[str, int] | None:
    """The words of a number and its unit, and of what belongs to the unit: a power, "per", a full stop."""
    if power := POWER_AT.match(at.text, end):
        unit, end = f"{SQUARE[power[0]]} {unit}", power.end()
    if re.match(r"\w|/\w+/", at.text[end : end + 12]):
        return None
    tail, end = per_tail(at.text, end + (at.text[end : end + 2] == "./"))
    stop = STOP_INSIDE.match(at.text, end) or (STOP_OF_JOINED.match(at.text, end) if gap == "-" else None)
    end = stop.end() if stop else end
    enclosed = at.text[: at.begin].endswith("(") and re.match(
        r"\.?\)(?! (?:of|and|or|in|for|per|to|each|every|with|once|twice|daily|an?|by|at|as|if|is|was|q)\b) [a-z]",
        at.text[end : end + 8],
    )
    if gap == "-" and at.text[end : end + 1] == "-" and unit in ("piece", "pair", "page", "count", "package"):
        return None
    single = not at.low and " per " not in unit and (gap == "-" or enclosed or adjective(at.text, at.begin, end))
    return f"{at.words} {unit if single else plural(unit, at.count)}{tail}", end


def per_tail(text: str, end: int) -> tuple[str, int]:
    found = PER_AT.match(text, end)
    if not found:
        return "", end
    if found["per"] is None:
        hundred = re.match(r"1000?\b|1,000\b|(?:4|6|8|12|24|48|72) ?h(?:rs?|ours)?\b", text[end + 1 : end + 10])
        return (" per", end + 1) if unit_named(found["again"]) and hundred else ("", end)
    if found["per"] not in PER:
        counted = len(found["per"]) > 3 and found["per"].islower() and not found["per"].endswith("s")
        return (f" per {found['per']}", found.end()) if counted else ("", end)
    return f" per {per_unit(found['per'], found['power'])}", found.end()


def per_unit(unit: str, power: str | None) -> str:
    """s² -> second squared; cm³ -> cubic centimeter."""
    if power is None:
        return PER[unit]
    return f"{PER[unit]} {SQUARED[power]}" if unit in ("s", "h") else f"{SQUARE[power]} {PER[unit]}"


def lettered(at: Figure, gap: str, letter: str, end: int) -> tuple[str, int] | None:
    """A number and one letter: the letter is a unit, a multiplier, or part of a name."""
    if letter in WITH_STOP and at.text[end : end + 1] == "." and gap == " ":
        return dotted(at, letter, end)
    if named := named_before(at, gap, letter, end):
        return f"{at.words} {named}", end
    kind = decide.letter_after_number(at.text, at.begin, at.written, gap, letter, end)
    if kind == "unit" and letter in UNITS:
        return with_unit(at, UNITS[letter], gap, end)
    if kind == "lasting":
        return f"{at.words} {plural('minute' if letter == 'm' else 'day', at.count)}", end
    if kind == "degrees":
        return f"{at.words} degrees {'Celsius' if letter == 'C' else 'Fahrenheit'}", end
    if kind == "scale" and letter in "kK" and (unit := SCALED_UNIT.match(at.text, end)):
        return f"{at.words} thousand {plural(unit_named(unit[1]) or unit[1], '2')}", unit.end()
    if kind == "scale" and at.written + letter not in GENERATIONS:
        return f"{at.words}{scale(letter)}", end
    if gap == "" and letter not in "xX" and not at.low:
        figure = pairs(int(at.written)) if at.written.isdecimal() and at.written[0] != "0" else amount(at.written)
        return f"{figure} {letter.upper()}", end
    return None


def named_before(at: Figure, gap: str, letter: str, end: int) -> str | None:
    """What words beside a number and a letter say at once: 10 U of insulin, 2 T sugar, lat. 40.7 N."""
    if letter in "uU" and {"insulin", "heparin"} & set(around.before(at.text, at.begin, 3)):
        return plural("unit", at.count)
    if gap == " " and letter == "c" and len(at.written) < 3 and re.match(r" [a-z]{3}| H2O", at.text[end : end + 4]):
        return plural("cup", at.count)
    if gap == " " and letter in "Ttc" and english.FOOD & set(around.after(at.text, end, 2)):
        return plural(WITH_STOP[letter], at.count)
    if letter in "NSEW" and english.COORDINATES & set(around.before(at.text, at.begin, 2)):
        return english.COMPASS[letter].lower()
    return None


SCALED_UNIT = re.compile(r" (mi|km|lbs?|ft|sq ft|sf|gal|kg)\b\.?(?=[,;)/]| [a-z]|\Z)")


def dotted(at: Figure, unit: str, end: int, gap: str = "") -> tuple[str, int] | None:
    """3 in. of rain, 1 c. sugar; not a word that ends a sentence."""
    found = re.compile(r"\.(?=[,;)]| [a-z0-9(+&@=]|\Z)").match(at.text, end)
    if not found:
        return None
    end = found.end() if found.end() < len(at.text) else found.start()
    name = WITH_STOP[unit]
    if name == "each":
        return f"{at.words} each", end
    single = not at.low and (gap == "-" or adjective(at.text, at.begin, end))
    return f"{at.words} {name if single else plural(name, at.count)}", end


def large(at: Figure) -> tuple[str, int] | None:
    """10M users, 50k, 100 million kg."""
    found = LARGE_AT.match(at.text, at.end)
    if not found or found["letter"]:
        return None
    end = found.end()
    words = f"{at.words} {LARGE.get(found['large'], found['large'])}"
    unit = re.compile(r" (\w{1,4})\b").match(at.text, end)
    if unit and len(unit[1]) > 1 and (name := unit_named(unit[1])):
        return f"{words} {plural(name, '2')}", unit.end()
    return words, end


def primes(at: Figure) -> tuple[str, int] | None:
    """12' x 10', 27" monitor: feet and inches, minutes and seconds of an arc or a match; or quotation marks."""
    found = PRIME_AT.match(at.text, at.end)
    if not found or re.search(r"(?<!['’′\"″][x×])(?<=[\w'’‘`\"“])\Z", at.text[max(0, at.start - 2) : at.start]):
        return None
    mark, end, text = found["mark"], found.end(), at.text
    if " " in found[0] and mark not in "′″":
        return None
    if mark in "'’′" and around.word_before(text, at.start) in COOKED:
        return f"{at.words} {plural('minute', at.written)}", end
    if mark == "″" or (mark == '"' and not quoted(at, end)):
        return inches(at, end)
    if mark in "\"'’" and (mark == '"' or apostrophe(at, mark, end)):
        return None
    if mark in "'’" and of_a_match(text, at, end):
        return f"{at.words} minute", end
    single = adjective(text, at.begin, end)
    return f"{at.words} {'foot' if single else plural('foot', at.written)}", end


COOKED = frozenset("simmer boil cook bake fry steam roast rest every wait chill knead stir".split())
"""Before 20' they show that it is minutes."""


LENGTH_AFTER = re.compile(r" (?:deep|wide|tall|long|high|apart|thick|in diameter|square|diagonal)\b")


def quoted(at: Figure, end: int) -> bool:
    """Whether a straight mark closes a quotation."""
    text = at.text
    if len(at.written) < 4 and LENGTH_AFTER.match(text, end):
        return False
    if text[end : end + 1].isalnum():
        return not re.match(r"[WDHLwdhl]\b", text[end : end + 2])
    return text.count('"') % 2 == 0 and not re.match(r" ?[x×]", text[end : end + 2]) and "x" not in text[: at.start]


def apostrophe(at: Figure, mark: str, end: int) -> bool:
    text = at.text
    if re.search(r"['’\"″′] ?[x×] ?\Z", text[max(0, at.start - 4) : at.start]):
        return False
    if of_a_match(text, at, end) or re.match(r"[x×] ?\d", text[end : end + 3]):
        return False
    if text[end : end + 1].isalnum() or (mark == "'" and text.count(mark, max(0, at.start - 40), at.start) % 2):
        return True
    return not FEET_GO_ON.match(text, end)


FEET_GO_ON = re.compile(r" ?[x×]| (?:tall|long|wide|deep|high|by|even|flat)\b|,? |[.)]?\Z")


def inches(at: Figure, end: int) -> tuple[str, int]:
    following = around.word_after(at.text, end)
    noun = re.match(r" [a-z]", at.text[end : end + 2]) and following == "monitor"
    named = at.text.count('"', 0, at.start) % 2 == 0 and (len(following) > 2 or following == "sq")
    thing = named and following not in NOT_THINGS and not NOT_A_NOUN.match(at.text, end)
    single = MODEL_AFTER.match(at.text, end) or (
        (thing or adjective(at.text, at.begin, end)) and not (noun and not_after_article(at))
    )
    return f"{at.words} {'inch' if single else plural('inch', at.written)}", end


NOT_THINGS = frozenset("apart thick below above per inches the square between".split())
MODEL_AFTER = re.compile(r" [A-Z]{1,3}\d")


def not_after_article(at: Figure) -> bool:
    return around.word_before(at.text, at.begin) not in ("a", "an", "the", "this", "my")


def of_a_match(text: str, at: Figure, end: int) -> bool:
    """The 45' mark."""
    if around.word_after(text, end) in ("mark", "minute", "goal"):
        return True
    if SEVERAL_MINUTES.search(text[max(0, at.start - 12) : end + 12]):
        return True
    named = re.search(r"(?:\b([A-Z][a-z]+),? |['’], )\Z", text[max(0, at.start - 20) : at.start])
    return bool(named and named[1] not in LENGTHS and re.match(r",|\.|\Z", text[end : end + 1]))


SEVERAL_MINUTES = re.compile(r"\b\d{1,2}['’′](?:,| and| &) (?:and )?\d{1,3}['’′](?![\d\"″x])")
LENGTHS = ("Height", "Width", "Length", "Depth", "Board", "About", "Over", "Only", "Size", "The")


def by_or_times(at: Figure) -> tuple[str, int] | None:
    """1920x1080, 3 x 4 x 5: by; with an equals sign after it, times. 10x faster: times. y = 2x: the letter."""
    text, end = at.text, at.end
    if text[max(0, at.start - 1) : at.start].isalnum():
        return None
    if not BY_AT.match(text, end) or PARTS_AT.match(text, BY_AT.match(text, end).end()):  # type: ignore[union-attr]
        found = TIMES_AT.match(text, end)
        if not found:
            return None
        beside = re.search(r"[=<>+*/^(−-] ?\Z", text[max(0, at.start - 2) : at.start])
        if "x" in found[0] and (beside or COMPUTED_BESIDE.match(text, found.end())):
            return f"{at.words} x", found.end()
        return f"{at.words} times", found.end()
    parts, crossed = [at.written], False
    while len(parts) < 4 and (found := BY_AT.match(text, end)) and not PARTS_AT.match(text, found.end()):
        part = AT.match(text, found.end())
        assert part is not None, "a digit follows"
        crossed |= "×" in found[0] and " " in found[0]
        parts.append(part[0])
        end = part.end()
    asked = " x " in text[at.start : end] and ASKED.search(text[max(0, at.start - 10) : at.start])
    word = "times" if re.match(r" ?=|\^", text[end : end + 2]) or crossed or asked else "by"
    long = all(RESOLUTION.fullmatch(part) for part in parts)
    words = f" {word} ".join(pairs(int(part)) if long else amount(part) for part in parts)
    return with_dimension(text, words, parts[-1], end)


ASKED = re.compile(r"(?i)\b(?:what['’]?s|what is|multiply) \Z")
COMPUTED_BESIDE = re.compile(r" ?(?:[-−–+] ?\d|[=<>*/^²³)≤≥])")
DIMENSION_UNIT = re.compile(r" ?(cm|mm|m|in|ft|km|px|inch|inches|feet)(²|³|2|3)?(?![\w²³/])")


def with_dimension(text: str, words: str, last: str, end: int) -> tuple[str, int]:
    """2x8 m2: the area that two lengths span."""
    if inch := re.compile(r'-in(?:ch)?\b\.?(?= [a-z])|["″](?= [a-z]| or\b)').match(text, end):
        return f"{words} inch", inch.end()
    if feet := re.compile(r"['’′](?=[\s,;.)]|\Z)").match(text, end):
        return f"{words} feet", feet.end()
    if inch := re.compile(r" ?in\.?(?=[,;)]|\s*\Z)").match(text, end):
        return f"{words} inches", inch.end()
    found = DIMENSION_UNIT.match(text, end)
    if found and found[2] and (unit := UNITS.get(found[1])):
        return f"{words} {SQUARE[found[2]]} {plural(unit, '2')}", found.end()
    if found and found[1] == "m" and adjective(text, end, found.end()):
        return f"{words} meter", found.end()
    if found and not found[2] and found[1] in UNITS:
        return f"{words} {plural(UNITS[found[1]], '2')}", found.end()
    counted = UNIT_AT.match(text, end)
    name = counted and not found and len(counted["unit"]) > 1 and unit_named(counted["unit"])
    if counted and name:
        return f"{words.replace(' by ', ' times ')} {plural(name, last)}", counted.end()
    if (plural_of := re.compile(r"s\b").match(text, end)) is not None:
        return f"{words}s", plural_of.end()
    return words, end


def nth(at: Figure) -> tuple[str, int] | None:
    found = ORDINAL_AT.match(at.text, at.end)
    if not found or "." in at.written:
        return None
    return ordinal(int(plain(at.written).replace(",", ""))), found.end()


def several(at: Figure) -> tuple[str, int] | None:
    """The 747s, two 2x4s, over-65s: more than one of what is called by a number."""
    if re.match(r"ers\b", at.text[at.end : at.end + 4]) and re.fullmatch(r"\d\d", at.written):
        return f"{amount(at.written)}{'rs' if at.written[1] == '9' else 'ers'}", at.end + 3  # the 49ers
    if not re.match(r"s\b", at.text[at.end : at.end + 2]) or not at.written.isdecimal():
        return None
    before = around.word_before(at.text, at.start)
    if re.search(r"\b[A-Z]{2,4}\Z", at.text[max(0, at.start - 5) : at.start]):
        return f"{at.words}s", at.end + 1  # MP3s
    named = len(at.written) in (3, 4) and (before in SEVERAL or before.endswith("'s"))
    if not named and not re.search(r"(?:over|under)-\Z|[A-Z]-\Z", at.text[max(0, at.start - 6) : at.start]):
        return None
    words = pairs(int(at.written)) if int(at.written) else "zero"
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}{'es' if words.endswith('x') else 's'}", at.end + 1


SEVERAL = frozenset("the these those some old new two three four five many boeing airbus porsche his their our".split())


def bare(at: Figure) -> str:
    """A number on its own; four digits without a comma are mostly a year."""
    if re.match(r" ?(?:AD|BC|BCE|CE|A\.D|B\.C)\b", at.text[at.end : at.end + 5]) and at.written.isdecimal():
        return pairs(int(at.written)) if at.written[0] != "0" else amount(at.written)
    if (
        re.fullmatch(r"\.\d{3}", at.written)
        and around.word_before(at.text, at.start)
        in (
            "hit",
            "batting",
            "average",
            "hitting",
        )
    ) or (re.fullmatch(r"\.\d{3}", at.written) and around.word_after(at.text, at.end) in ("avg", "average", "hitter")):
        return pairs(int(at.written[1:])) if at.written[1] != "0" else amount(at.written)
    if re.fullmatch(r"1[1-9]\d\d|20\d\d", at.written):
        return year(int(at.written))
    if re.fullmatch(r"10[1-9]\d", at.written) and (dated(at) or at.written in FORMS):
        return pairs(int(at.written))
    return amount(at.written)


FORMS = ("1040", "1099", "1066")


def dated(at: Figure) -> bool:
    """1066 is a year after "in" or "by", where nothing is counted."""
    if at.text[at.start - 1 : at.start] == "-" or re.match(r" [a-z]{3,}s\b", at.text[at.end : at.end + 20]):
        return False
    return around.word_before(at.text, at.start) in english.YEARS_BEFORE


def hyphenated(at: Figure) -> tuple[str, int] | None:
    if re.match(r"-inch\b", at.text[at.end : at.end + 6]):
        return f"{at.words}-inch", at.end + 5
    return None


READERS = {
    " ": (percent, money_after, by_or_times, measured, large, primes),
    LETTER: (by_or_times, several, nth, measured, large),
    "-": (hyphenated, measured),
    "×": (by_or_times,),
    "°": (measured,),
    "º": (measured,),
    **dict.fromkeys("%‰", (percent,)),
    **dict.fromkeys("".join(MONEY) + "¢", (money_after,)),
    **dict.fromkeys("′″'’\"", (primes,)),
}
"""What may follow a number, by its first character."""


# ---- without a number before them


def per(found: Match) -> str | None:
    """/month after an amount; `per km²` where no amount stands directly before it, and `per km` as it is."""
    if found["per"] not in PER:
        return None
    if found[0].startswith("/"):
        return f" per {per_unit(found['per'], found['power'])}"
    return f"per {per_unit(found['per'], found['power'])}" if found["power"] else None


def area(found: Match) -> str | None:
    """km² without a number."""
    unit = UNITS.get(found["unit"])
    if unit is None:
        return None
    single = around.word_before(found.string, found.start()) in ("per", "a", "each", "every", "one")
    return f"{SQUARE[found['power']]} {unit if single else plural(unit, '2')}"


RULES: tuple[Rule, ...] = (
    Rule("a/", r"(?:(?<=\w )per |(?<=[\dkM])/)(?P<per>[A-Za-zµμ]{1,9})(?P<power>[²³])?(?![\w/])(?:\.(?=,"
         r"| [a-z0-9(@&+=]))?", per),
    Rule("a", r"(?<![\w/])(?P<unit>[a-zµμ]{1,3})(?P<power>[²³])(?!\w)", area),
    Rule("0.", rf"{FIGURE}", quantity),
)  # fmt: skip
