"""Numbers in words."""

from __future__ import annotations

import pytest

from omnitts_cli.text.numerals import cardinal, decade, digits, number, whole


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


def test_decades_digits_and_decimals() -> None:
    assert (decade(1990), decade(20), decade(1900)) == ("nineteen nineties", "twenties", "nineteen hundreds")
    assert digits("042") == "zero four two"
    assert number("3,000.25") == "three thousand point two five"
    assert number(".5") == "zero point five"


def test_what_is_no_quantity_is_read_digit_by_digit() -> None:
    assert whole("007") == "zero zero seven"
    assert whole("1" * 5000) == " ".join(["one"] * 5000)
