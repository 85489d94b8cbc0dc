"""Spanish, French, Italian and Portuguese: how much of their key files is read right.

python tests/support/languages.py [es|fr|it|pt] prints the figures of each language, and what is read otherwise.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

from everyday import expanded

from omnitts_cli.text.spoken.european.reader import speller

FOLDER = Path(__file__).parents[1] / "text" / "languages"
LANGUAGES = ("es", "fr", "it", "pt")


@cache
def rows(language: str, table: str) -> list[list[str]]:
    """The rows of `numbers` or `lines`: a text and what may be said, or its phonemes."""
    found = (FOLDER / language / f"{table}.tsv").read_text("utf-8").splitlines()
    return [row.split("\t") for row in found if not row.startswith("# ")]


def squashed(text: str) -> str:
    """The letters alone."""
    return re.sub(r"[\W_]", "", text.casefold())


def wrong_numbers(language: str) -> list[tuple[str, str]]:
    """The texts of `numbers` that are read otherwise than they may be, each with what is said."""
    read = speller(language)
    said = [(row[0], read(row[0]), row[1:]) for row in rows(language, "numbers")]
    return [
        (text, words)
        for text, words, told in said
        if squashed(words) not in {squashed(one) for choices in told for one in expanded(choices)}
    ]


def main() -> None:
    for language in sys.argv[1:] or LANGUAGES:
        wrong = wrong_numbers(language)
        for text, said in wrong:
            sys.stdout.write(f"{language}: {text}\t{said}\n")
        count = len(rows(language, "numbers"))
        sys.stdout.write(f"{language}: {count - len(wrong)} of {count} numbers, dates, times and sums are read right\n")


if __name__ == "__main__":
    main()
