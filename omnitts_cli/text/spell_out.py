"""Written English -> English as it is read aloud: numbers, dates, times, money, units and signs as words.

`spell_out` leaves alone what is already words. `plain_letters` goes on to what a model reads that was
taught with letters and simple punctuation only; what it cannot turn into those it refuses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from omnitts_cli.errors import InputError
from omnitts_cli.text.numerals import cardinal, decade, digits, number, ordinal, whole, year

MONTHS = "January February March April May June July August September October November December".split()
MONTH = r"(?P<month>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
MONTH += r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
FIGURE = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"

MONEY = {
    "$": ("dollar", "cent"), "€": ("euro", "cent"), "£": ("pound", "penny"), "¥": ("yen", ""), "₹": ("rupee", "paisa"),
}  # fmt: skip
SAME_IN_PLURAL = {"yen", "hertz", "kilohertz", "megahertz", "gigahertz"}
LARGE = {"k": "thousand", "m": "million", "bn": "billion", "b": "billion", "tn": "trillion"}
UNITS = {
    "km/h": "kilometer per hour", "m/s": "meter per second", "mph": "mile per hour", "kph": "kilometer per hour",
    "km": "kilometer", "cm": "centimeter", "mm": "millimeter", "µm": "micrometer", "nm": "nanometer", "m": "meter",
    "kg": "kilogram", "mg": "milligram", "g": "gram", "lbs": "pound", "lb": "pound", "oz": "ounce", "ft": "foot",
    "mi": "mile", "ml": "milliliter", "ms": "millisecond", "µs": "microsecond", "ns": "nanosecond", "hrs": "hour",
    "hr": "hour", "mins": "minute", "min": "minute", "secs": "second", "sec": "second", "s": "second", "h": "hour",
    "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "kB": "kilobyte", "KB": "kilobyte",
    "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "KiB": "kibibyte", "MiB": "mebibyte", "GiB": "gibibyte",
    "kW": "kilowatt", "MW": "megawatt", "W": "watt", "V": "volt", "mAh": "milliampere hour", "dB": "decibel",
    "px": "pixel", "fps": "frame per second", "°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree",
}  # fmt: skip
UNIT = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
PARTS = {2: "half", 3: "third", 4: "quarter"}
SHORT = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor", "Jr": "Junior",
    "Sr": "Senior", "vs": "versus", "etc": "et cetera", "approx": "approximately", "e.g": "for example",
    "i.e": "that is", "Gen": "General", "Capt": "Captain", "Lt": "Lieutenant", "Sgt": "Sergeant", "Gov": "Governor",
    "Rev": "Reverend", "Inc": "Incorporated", "Ltd": "Limited", "Corp": "Corporation", "Dept": "Department",
}  # fmt: skip
ENDS = {"Jr", "Sr", "etc", "Inc", "Ltd", "Corp"}  # whose stop may also end the sentence
ADDRESS = {".": "dot", "/": "slash", "@": "at", "-": "dash", "_": "underscore", ":": "colon", "?": "question mark",
           "=": "equals", "&": "and", "#": "hash", "%": "percent", "~": "tilde", "+": "plus"}  # fmt: skip
SIGNS = {
    "&": "and", "@": "at", "+": "plus", "=": "equals", "×": "times", "÷": "divided by", "<": "less than",
    ">": "greater than", "±": "plus or minus", "%": "percent", "‰": "per mille", "°": "degrees", "§": "section",
    "$": "dollars", "€": "euros", "£": "pounds", "¥": "yen", "₹": "rupees", "#": "hash", "≈": "about", "≠": "is not",
    "≤": "at most", "≥": "at least", "∞": "infinity", "√": "square root of", "→": "to", "©": "copyright",
}  # fmt: skip


def plural(unit: str, count: str) -> str:
    """The unit behind a number: meter per second -> meters per second, unless there is one of them."""
    head, *rest = unit.split(" ", 1)
    if count in ("1", "1.0") or head in SAME_IN_PLURAL:
        return unit
    heads = {"foot": "feet", "penny": "pence", "paisa": "paise", "milliampere": "milliampere"}
    tail = [f"{rest[0]}s"] if head == "milliampere" else rest
    return " ".join([heads.get(head, f"{head}s"), *tail])


def address(found: re.Match[str]) -> str:
    text = re.sub(r"^(?:https?|ftp)://", "", found[0])
    words = re.sub(r"[^A-Za-z0-9]", lambda sign: f" {ADDRESS.get(sign[0], '')} ", text.rstrip("/"))
    return re.sub(r"\d+", lambda run: f" {whole(run[0])} ", words)


def iso_date(found: re.Match[str]) -> str:
    month, day = int(found["iso_month"]), int(found["iso_day"])
    return f"{MONTHS[month - 1]} {ordinal(day)}, {year(int(found['iso_year']))}"


def month(written: str) -> str:
    return next(name for name in MONTHS if name.startswith(written[:3]))


def month_first(found: re.Match[str]) -> str:
    name = month(found["month"])
    end = f", {year(int(found['its_year']))}" if found["its_year"] else ""
    return f"{name} {ordinal(int(found['day']))}{end}"


def day_first(found: re.Match[str]) -> str:
    name = month(found["its_month"])
    end = f", {year(int(found['that_year']))}" if found["that_year"] else ""
    the = "" if found.string[max(0, found.start() - 4) : found.start()].lower() == "the " else "the "
    return f"{the}{ordinal(int(found['date']))} of {name}{end}"


def clock(found: re.Match[str]) -> str:
    hour, minute = int(found["hour"]), int(found["minute"])
    half = f" {found['half'][0].lower()} m" if found["half"] else ""
    if not minute:
        words = cardinal(hour) + (half or (" o'clock" if hour <= 12 else " hundred"))
    else:
        words = f"{cardinal(hour)} {'oh ' if minute < 10 else ''}{cardinal(minute)}{half}"
    if found["second"]:
        seconds = int(found["second"])
        words += f" and {cardinal(seconds)} {plural('second', str(seconds))}"
    return words


def money(found: re.Match[str]) -> str:
    one, hundredth = MONEY[found["coin"]]
    amount, large = found["amount"], found["large"]
    if large:
        return f"{number(amount)} {LARGE.get(large.lower(), large)} {plural(one, '2')}"
    units, _, cents = amount.replace(",", "").partition(".")
    if len(cents) != 2 or not hundredth:
        return f"{number(amount)} {plural(one, amount)}"
    words = [f"{whole(units)} {plural(one, units)}"] if int(units or 0) or not int(cents) else []
    if int(cents):
        words.append(f"{cardinal(int(cents))} {plural(hundredth, str(int(cents)))}")
    return " and ".join(words)


def fraction(found: re.Match[str]) -> str:
    above, below = int(found["above"]), int(found["below"])
    if above >= below or not above or below > 10:
        return f"{whole(found['above'])} over {whole(found['below'])}"
    part = PARTS.get(below, ordinal(below))
    several = "halves" if part == "half" else f"{part}s"
    return f"{cardinal(above)} {part if above == 1 else several}"


def bare(found: re.Match[str]) -> str:
    """A number on its own; four digits without a comma are mostly a year."""
    text = found["number"]
    if re.fullmatch(r"1[1-9]\d\d|20\d\d", text):
        return year(int(text))
    return number(text)


def shortened(found: re.Match[str]) -> str:
    word = found["short"]
    after = found.string[found.end() : found.end() + 2]
    stop = "." if word in ENDS and not after.strip() else ""
    return SHORT[word] + stop


# In this order at each place; every alternative begins and ends so that no number is cut in two.
RULES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"(?:https?|ftp)://[^\s<>\"')]{0,2000}[\w/]|\bwww\.[\w.-]{1,200}\w|\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.\w{1,24}){1,8}",
     address),
    (r"\b(?P<iso_year>[12]\d{3})-(?P<iso_month>0[1-9]|1[0-2])-(?P<iso_day>0[1-9]|[12]\d|3[01])\b", iso_date),
    (rf"\b(?P<date>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)? {MONTH.replace('month', 'its_month')}(?!\w)"
     r"(?:,? (?P<that_year>[12]\d{3})\b)?", day_first),
    (rf"\b{MONTH} (?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?(?:,? (?P<its_year>[12]\d{{3}}))?(?![\w,.]*\d)",
     month_first),
    (r"(?<![\d:])(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?"
     r"(?![\d:])(?: ?(?P<half>[AaPp]\.?[Mm]\b\.?))?", clock),
    (r"\b(?P<hours>1[0-2]|[1-9]) ?(?P<noon>[AaPp])\.?[Mm]\b\.?",
     lambda found: f"{cardinal(int(found['hours']))} {found['noon'].lower()} m"),
    (rf"(?P<coin>[{''.join(MONEY)}]) ?(?P<amount>{FIGURE})"
     r"(?:(?: ?(?P<large>million|billion|trillion|thousand|bn|tn|[kKMB]))\b)?", money),
    (r"\b\d{3}[-. ]\d{3}[-. ]\d{4}\b|\b\d{3}-\d{4}\b",
     lambda found: ", ".join(digits(part) for part in re.split(r"[-. ]", found[0]))),
    (r"\b\d+(?:\.\d+){2,}\b", lambda found: " point ".join(whole(part) for part in found[0].split("."))),
    (r"(?<![\w])'?(?P<decade>(?:1[1-9]|20)?\d0)'?s\b", lambda found: decade(int(found["decade"]))),
    (r"\b(?P<nth>\d{1,15})(?:st|nd|rd|th)\b", lambda found: ordinal(int(found["nth"]))),
    (r"(?<![\d/.])(?P<above>\d{1,4})[/⁄](?P<below>[1-9]\d{0,3})(?![\d/])", fraction),
    (rf"\b(?P<low>{FIGURE}) ?[-–] ?(?=\d)",
     lambda found: (year(int(found["low"])) if len(found["low"]) == 4 and "." not in found["low"] else
                    number(found["low"])) + " to "),
    (rf"(?P<count>{FIGURE}) ?%", lambda found: f"{number(found['count'])} percent"),
    (rf"(?P<much>{FIGURE}) ?(?P<unit>{UNIT})(?![\w/])",
     lambda found: f"{number(found['much'])} {plural(UNITS[found['unit']], found['much'])}"),
    (r"\bNos?\. ?(?=\d)|#(?=\d)", lambda found: "number "),
    (rf"(?P<short>\b(?:{'|'.join(re.escape(word) for word in SHORT)}))\.", shortened),
    (r"(?<![\w.)])[-−](?=\.?\d)", lambda found: "minus "),
    (r"(?<=[a-z0-9]{2})\.(?=[a-z]{2})", lambda found: "dot"),
    (rf"(?:(?<!\w)'(?=\d))?(?P<number>{FIGURE})", bare),
)  # fmt: skip
SPOKEN = re.compile("|".join(f"(?P<rule{n}>{pattern})" for n, (pattern, _) in enumerate(RULES)))


def spell_out(text: str) -> str:
    """The text with its numbers, dates, times, money, units and common short forms as words."""
    if not text.isascii():
        text = "".join(unicodedata.normalize("NFKC", c) if unicodedata.category(c) in ("No", "Nd", "So") else c
                       for c in text)  # fmt: skip
    return re.sub(" {2,}", " ", SPOKEN.sub(spoken, text))


def spoken(found: re.Match[str]) -> str:
    """The words of one match; apart from letters that it was written together with, as in H2O."""
    rule = next(n for n in range(len(RULES)) if found[f"rule{n}"] is not None)
    start, end = found.span()
    before, after = found.string[max(0, start - 1) : start], found.string[end : end + 1]
    return f"{' ' * before.isalnum()}{RULES[rule][1](found)}{' ' * after.isalnum()}"


FOLDED = str.maketrans({
    "’": "'", "‘": "'", "ʼ": "'", "´": "'", "`": "", "…": "...", "ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "Ae", "œ": "oe",
    "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "th", "Ð": "Th", "þ": "th", "Þ": "Th",
    "ı": "i", "ĳ": "ij", ";": ",", ":": ",", "(": ",", ")": ",", "[": ",", "]": ",", "{": ",", "}": ",", "—": ",",
    "–": ",", "―": ",", "|": ",", "•": ",", "_": " ", "/": " slash ", "\\": " backslash ", "¿": "", "¡": "",
})  # fmt: skip
SIGN = re.compile("[" + re.escape("".join(SIGNS)) + "]")
GREEK = re.compile(r"(?<![\u0370-\u03ff])[\u0391-\u03c9](?![\u0370-\u03ff])")
INITIALS = re.compile(r"\b(?:[A-Za-z]\.){2,}")
UNREAD = re.compile(r"[^A-Za-z ,.!?'-]+")
LOOSE_HYPHEN = re.compile(r"(?<![A-Za-z])-|-(?![A-Za-z])")
RUN = re.compile(r" ?[,.!?](?:[ ,.!?]*[,.!?])?")
SHOWN_LETTERS = 12


def plain_letters(text: str) -> str:
    """A sentence in English letters, spaces and `,.!?'-`; empty where nothing of it can be said.

    Accents are dropped, single Greek letters named, signs without a sound left out; letters of other
    scripts are refused.
    """
    text = plain_part(text).strip(" ,-")
    if not any(c.isalpha() for c in text):
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def plain_part(text: str) -> str:
    """The same for a part of a sentence, whose ends touch other parts."""
    text = spell_out(text).translate(FOLDED)
    text = INITIALS.sub(lambda found: found[0].replace(".", " ").rstrip() + "." * (found.end() == len(text)), text)
    text = GREEK.sub(lambda found: f" {unicodedata.name(found[0], ' ').split()[-1].lower()} ", text)
    text = SIGN.sub(lambda found: f" {SIGNS[found[0]]} ", text)
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    refuse_foreign(text)
    text = LOOSE_HYPHEN.sub(" ", UNREAD.sub(" ", text))
    text = RUN.sub(lambda found: strongest(found[0]), re.sub(r"\s+", " ", text))
    return re.sub(r"([,.!?])(?=[A-Za-z'])", r"\1 ", text)


def strongest(run: str) -> str:
    """Of marks in a row the one that counts."""
    return next(mark for mark in "?!.," if mark in run)


def refuse_foreign(text: str) -> None:
    foreign = [c for c in text if c.isalpha() and not c.isascii()]
    if foreign:
        shown = "".join(dict.fromkeys(foreign))[:SHOWN_LETTERS]
        raise InputError(
            f"this model reads English letters; '{shown}' are none",
            cause=f'text "{text[:60]}"',
            hint="-m 0.6b and -m 1.7b read ten languages; or give the words by --lexicon",
        )
