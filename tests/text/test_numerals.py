"""Numbers in words."""

from collections.abc import Callable
from typing import Any

import pytest

from omnitts_cli.text.numerals import cardinal, decade, digits, number, whole


@pytest.mark.parametrize(
    ("how", "given", "words"),
    [
        (cardinal, 0, "zero"), (cardinal, 13, "thirteen"), (cardinal, 40, "forty"), (cardinal, 99, "ninety nine"),
        (cardinal, 345, "three hundred forty five"), (cardinal, 1_000_001, "one million one"),
        (cardinal, 12_000, "twelve thousand"),
        (cardinal, 10**15 - 1, "nine hundred ninety nine trillion nine hundred ninety nine billion nine hundred "
         "ninety nine million nine hundred ninety nine thousand nine hundred ninety nine"),
        (decade, 1990, "nineteen nineties"), (decade, 20, "twenties"), (decade, 1900, "nineteen hundreds"),
        (digits, "042", "zero four two"), (number, "3,000.25", "three thousand point two five"),
        (number, ".5", "zero point five"), (whole, "007", "zero zero seven"),
        (whole, "1" * 5000, " ".join(["one"] * 5000)),
    ],
)  # fmt: skip
def test_numbers_in_words(how: Callable[[Any], str], given: Any, words: str) -> None:
    """What is no quantity is read digit by digit."""
    assert how(given) == words
