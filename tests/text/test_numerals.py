"""Numbers in words."""

from __future__ import annotations

import pytest

from omnitts_cli.text.numerals import cardinal, decade, digits, number, ordinal, whole, year


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (99, "ninety nine"),
        (345, "three hundred forty five"),
        (1_000_001, "one million one"),
        (12_000, "twelve thousand"),
        (10**15 - 1, "nine hundred ninety nine trillion nine hundred ninety nine billion nine hundred ninety nine "
         "million nine hundred ninety nine thousand nine hundred ninety nine"),
    ],
)  # fmt: skip
def test_cardinals(given: int, words: str) -> None:
    assert cardinal(given) == words


@pytest.mark.parametrize(
    ("given", "words"),
    [(1, "first"), (2, "second"), (5, "fifth"), (12, "twelfth"), (20, "twentieth"), (21, "twenty first"),
     (100, "one hundredth"), (1009, "one thousand ninth")],
)  # fmt: skip
def test_ordinals(given: int, words: str) -> None:
    assert ordinal(given) == words


@pytest.mark.parametrize(
    ("given", "words"),
    [(1984, "nineteen eighty four"), (1900, "nineteen hundred"), (1905, "nineteen oh five"), (2000, "two thousand"),
     (2007, "two thousand seven"), (2026, "twenty twenty six"), (1066, "one thousand sixty six")],
)  # fmt: skip
def test_years(given: int, words: str) -> None:
    assert year(given) == words


def test_decades_digits_and_decimals() -> None:
    assert (decade(1990), decade(20), decade(1900)) == ("nineteen nineties", "twenties", "nineteen hundreds")
    assert digits("042") == "zero four two"
    assert number("3,000.25") == "three thousand point two five"
    assert number(".5") == "zero point five"


def test_what_is_no_quantity_is_read_digit_by_digit() -> None:
    assert whole("007") == "zero zero seven"
    assert whole("1" * 5000) == " ".join(["one"] * 5000)
