"""Spanish, French, Italian and Portuguese: how much of their key files is read right.

python tests/support/languages.py [es|fr|it|pt] prints the figures of each language, and what is read otherwise: the
written forms of `numbers`, and the words of `lines` whose phonemes are those of espeak-ng 1.51 (`espeak-ng --ipa -v es`
and fr, it, pt-br).
"""

import re
import sys
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

from everyday import expanded

from omnitts_cli.text.european.sentence import phonemes
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


def sounded(text: str) -> list[str]:
    """The words of phonemes without marks; espeak-ng's `-` joins words and is no sound."""
    return re.sub(r"[-,.!?]", "", text).split()


def wrong_words(language: str, stress: bool = True) -> tuple[int, list[tuple[str, str, str]]]:
    """How many words the lines have, and those that are read otherwise: what they should be, what is said, the line."""
    count, wrong = 0, []
    for text, told in rows(language, "lines"):
        meant, said = sounded(told), sounded(phonemes(text, language))
        if not stress:
            meant, said = ([re.sub("[ˈˌ]", "", word) for word in words] for words in (meant, said))
        count += len(meant)
        for kind, a, b, c, d in SequenceMatcher(None, meant, said, autojunk=False).get_opcodes():
            if kind != "equal" and "".join(meant[a:b]) != "".join(said[c:d]):
                wrong += [(word, " ".join(said[c:d]), text) for word in meant[a:b] or [""]]
    return count, wrong


def main() -> None:
    for language in sys.argv[1:] or LANGUAGES:
        wrong = wrong_numbers(language)
        for text, said in wrong:
            sys.stdout.write(f"{language}: {text}\t{said}\n")
        count = len(rows(language, "numbers"))
        sys.stdout.write(f"{language}: {count - len(wrong)} of {count} numbers, dates, times and sums are read right\n")
        words, otherwise = wrong_words(language)
        for meant, said, text in otherwise:
            sys.stdout.write(f"{language}: {meant}\t{said}\t{text}\n")
        bare = len(wrong_words(language, stress=False)[1])
        sys.stdout.write(
            f"{language}: {1 - len(otherwise) / words:.2%} of {words} words as espeak-ng reads them, "
            f"{1 - bare / words:.2%} without stress\n"
        )


if __name__ == "__main__":
    main()
