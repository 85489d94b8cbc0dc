"""Figures -> number words of a language, by its table."""

import re

from omnitts_cli.text.spoken.european.table import LanguageTable, changed

SPACES = " \u00a0\u202f\u2009"
FIGURE = (
    rf"(?:\d{{1,3}}(?:,\d{{3}})+\.\d+(?!\d)|\d{{1,3}}(?:,\d{{3}}){{2,5}}(?![\d,])"
    rf"|\d{{1,3}}(?:[.{SPACES}'’]\d{{3}})+(?!\d)(?:,\d+)?|\d+,\d+|\d+\.(?:\d\d?|\d{{4,}})(?![\d.,])|\d+)"
)
"""1.234,56; 1 234,56; 1,234.56; 0,5; 3.14; 1234."""
FOREIGN = re.compile(r"\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,5}")
PARTED = re.compile(r"(.*?)(?:(,)(\d+)|(\.)(\d{1,2}|\d{4,}))?")
LONGEST = 15
"""A number with more digits is read digit by digit."""
LONGEST_PLAIN = 9
"""The same for one without separators: a telephone or an account."""


def cardinal(table: LanguageTable, number: int) -> str:
    """The number by itself, masculine."""
    counting = table.counting
    if number < 1000:
        return below_thousand(table, number)
    if number < 10**6:
        count, rest = divmod(number, 1000)
        head = counting.thousand
        if count > 1:
            times = changed(below_thousand(table, count), counting.before_thousand)
            head = times + counting.thousand_gap + counting.thousands
        close, other = counting.thousand_join
        return head + (close if rest <= 100 or not rest % 100 else other) + cardinal(table, rest) if rest else head
    size, scale = next(entry for entry in counting.scales if number >= entry[0])
    count, rest = divmod(number, size)
    words = f"{beside(table, cardinal(table, count), scale.one)} {scale.many if count > 1 else scale.one}"
    return f"{words} {cardinal(table, rest)}" if rest else words


def below_thousand(table: LanguageTable, number: int) -> str:
    counting = table.counting
    if number < 100:
        return counting.small[number]
    hundreds, rest = divmod(number, 100)
    if not rest:
        return counting.round_hundreds[hundreds - 1]
    return changed(counting.hundreds[hundreds - 1] + counting.hundred_join + counting.small[rest], counting.elided)


def beside(table: LanguageTable, words: str, noun: str) -> str:
    """The number words as they are before a noun."""
    if not noun:
        return words
    return changed(f"{words} {noun}", table.counting.before_noun).removesuffix(noun).rstrip()


def counted(table: LanguageTable, number: int, noun: str = "", feminine: bool | None = None) -> str:
    """The number before a noun; an empty one: by itself."""
    words, rest = cardinal(table, number), number % 10**6
    if rest and (table.is_feminine(noun) if feminine is None else feminine):
        last = cardinal(table, rest)
        words = words.removesuffix(last) + changed(last, table.counting.feminine)
    words = beside(table, words, noun)
    return words + table.counting.of_millions if noun and number and not rest else words


def ordinal(table: LanguageTable, number: int, feminine: bool = False, noun: str = "") -> str:
    """The ordinal, by itself or before a noun."""
    rules = table.ordinals
    words = rules.words.get(number) or composed(table, number)
    if feminine:
        return changed(words, rules.feminine)
    return changed(f"{words} {noun}", rules.before_noun).removesuffix(noun).rstrip() if noun else words


def composed(table: LanguageTable, number: int) -> str:
    rules, one = table.ordinals, number % 10
    tens = rules.words.get(number - one)
    if not rules.ending and number < 100 and tens and one:
        return f"{tens} {rules.words[one]}"
    words = cardinal(table, number)
    for pattern, ending in rules.ending:
        if re.search(pattern, words):
            return re.sub(pattern, ending, words, count=1)
    return words


def digits(table: LanguageTable, text: str) -> str:
    """042 -> zero four two."""
    return " ".join(table.counting.small[int(digit)] for digit in text)


def telephone(table: LanguageTable, text: str) -> str:
    """Each group in pairs, or digit by digit."""
    runs = re.findall(r"\d+", text)
    if not table.things.phone_pairs:
        return ", ".join(digits(table, run) for run in runs)
    pairs = [pair for run in runs for pair in re.findall(r"\d\d?", run)]
    return " ".join(digits(table, pair) if pair[0] == "0" else table.counting.small[int(pair)] for pair in pairs)


def parted(figure: str) -> tuple[str, str, str]:
    """1.234,56 -> the digits of the whole, the mark of the decimals, the decimals."""
    if FOREIGN.fullmatch(figure):
        figure = figure.replace(",", " ")
    found = PARTED.fullmatch(figure)
    assert found is not None
    return re.sub(r"\D", "", found[1]), found[2] or found[4] or "", found[3] or found[5] or ""


def amount(table: LanguageTable, figure: str, noun: str = "", feminine: bool | None = None) -> str:
    """Any figure: grouped, with decimals, too long, or with zeros before it."""
    whole, mark, rest = parted(figure)
    if rest:
        between = table.counting.comma if mark == "," else table.counting.point
        few = len(rest) <= 2 and rest[0] != "0"
        return f"{cardinal(table, int(whole))} {between} {(cardinal(table, int(rest)) if few else digits(table, rest))}"
    bare = figure.isdecimal() and (len(whole) > LONGEST_PLAIN or (len(whole) > 1 and whole[0] == "0"))
    if bare or len(whole) > LONGEST:
        return digits(table, whole)
    return counted(table, int(whole), noun, feminine)


def several(table: LanguageTable, figure: str) -> bool:
    """Whether a plural follows the figure."""
    whole, _, rest = parted(figure)
    if len(whole) > LONGEST:
        return True
    value = float(f"{whole}.{rest or 0}")
    return value != 1 and value >= table.counting.singular_below
