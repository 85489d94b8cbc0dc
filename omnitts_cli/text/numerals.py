"""English numbers in words: cardinals, ordinals, years, pairs of digits, Roman numerals, and digits one by one."""

import re

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
SCALES = (
    (10**18, "quintillion"), (10**15, "quadrillion"), (10**12, "trillion"), (10**9, "billion"), (10**6, "million"),
    (10**3, "thousand"), (10**2, "hundred"),
)  # fmt: skip
LONGEST = 15
"""A number with more digits has no name here and is read digit by digit."""

LONGEST_GROUPED = 21
"""The same for a number with commas, which show that it is a quantity."""

LONGEST_PLAIN = 9
"""A number with more digits and no separator is a telephone number or an account: read digit by digit."""

ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
ROMAN_FORM = re.compile(r"(?=.)M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")

IRREGULAR = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip


def cardinal(number: int) -> str:
    """345 -> three hundred forty five."""
    if number < 20:
        return ONES[number]
    if number < 100:
        tens, rest = divmod(number, 10)
        return TENS[tens] + (f" {ONES[rest]}" if rest else "")
    size, name = next((size, name) for size, name in SCALES if number >= size)
    count, rest = divmod(number, size)
    return f"{cardinal(count)} {name}" + (f" {cardinal(rest)}" if rest else "")


def ordinal(number: int) -> str:
    """21 -> twenty first."""
    head, _, last = cardinal(number).rpartition(" ")
    if last in IRREGULAR:
        last = IRREGULAR[last]
    else:
        last = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return f"{head} {last}".strip()


def year(number: int) -> str:
    """1984 -> nineteen eighty four; 2007 -> two thousand seven; 1905 -> nineteen oh five."""
    return pairs(number) if 1100 <= number <= 2099 and not 2000 <= number < 2010 else cardinal(number)


def decade(number: int) -> str:
    """1990 -> nineteen nineties; 20 -> twenties."""
    words = year(number) if number >= 100 else cardinal(number)
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


def digits(text: str) -> str:
    """042 -> zero four two."""
    return " ".join(ONES[int(digit)] for digit in text)


def pairs(number: int) -> str:
    """A room, a flight or a road: 204 -> two oh four; 747 -> seven forty seven; 1204 -> twelve oh four."""
    hundreds, rest = divmod(number, 100)
    if not 100 <= number <= 9999 or not number % 1000:
        return cardinal(number)
    if not rest:
        return f"{cardinal(hundreds)} hundred"
    return f"{cardinal(hundreds)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def roman(text: str) -> int | None:
    """XIV -> 14; None for letters that are not a Roman numeral."""
    if not ROMAN_FORM.fullmatch(text):
        return None
    values = [ROMAN[letter] for letter in text]
    return sum(-value if value < max(values[n:]) else value for n, value in enumerate(values))


def whole(text: str) -> str:
    """A run of ASCII digits: a number, or digits one by one where it begins with zero or is too long."""
    if (len(text) > 1 and text.startswith("0")) or len(text) > LONGEST:
        return digits(text)
    if len(text) > LONGEST_PLAIN and not text.endswith("000000"):
        return digits(text)
    return cardinal(int(text))


def number(text: str) -> str:
    """3,000.25 -> three thousand point two five. The commas show that it is a quantity, however long it is."""
    before, _, after = text.partition(".")
    plain = before.replace(",", "")
    words = cardinal(int(plain)) if "," in before and len(plain) <= LONGEST_GROUPED else whole(plain or "0")
    return f"{words} point {digits(after)}" if after else words
