"""Tables of everyday text and what may be said for it: reads them, and finds the lines that are read otherwise.

python tests/support/everyday.py [-w] prints the lines that are read wrong; -w writes the list of them that the test
compares with.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from omnitts_cli.text.american.phonemes import INITIAL, phonemes
from omnitts_cli.text.inputs import TextOptions, pieces_of_text
from omnitts_cli.text.reading import reader, readings

FOLDER = Path(__file__).parents[1] / "text" / "everyday"
TABLES = ("newcomer", "lines", "others")
KNOWN_WRONG = FOLDER / "known_wrong.tsv"
MODEL: Any = SimpleNamespace(plain_letters=True)
MOST_COMPARED = 64
"""Of the readings of a line, how many are compared by their sounds: those that are written most alike."""
LONGEST = 110  # letters that the built-in model speaks in one piece
END = re.compile(r"[.!?]+[\"')\]]*(?=\s|$)")
OF_CHOICES = re.compile(r"[{|}]")
ARTICLE = re.compile(r"\ba (?=\w)|^A (?=\w)")
QUIET = re.compile(r"[ˈˌ ,.!?]")


@dataclass(frozen=True)
class Line:
    """One text of a table, its class there, and every reading that counts as right."""

    table: str
    kind: str
    text: str
    readings: tuple[str, ...]


def lines_of(table: str) -> list[Line]:
    """The lines of one of TABLES."""
    found, kind = [], ""
    for row in (FOLDER / f"{table}.tsv").read_text("utf-8").splitlines():
        if row.startswith("# "):
            kind = row[5:] if row.startswith("# -- ") else kind
            continue
        text, *told = row.split("\t")
        found.append(Line(table, kind, text, tuple(told)))
    return found


def expanded(told: str) -> Iterator[str]:
    """Every reading that `{this|that}` stands for; choices may stand in choices."""
    yield from (said for said, rest in sequence(told, 0) if rest == len(told))


def sequence(told: str, at: int) -> list[tuple[str, int]]:
    """What may be said from a place to the end of its choice, and where that is."""
    said = [""]
    while at < len(told) and told[at] not in "|}":
        if told[at] == "{":
            options, at = choice(told, at)
        else:
            mark = OF_CHOICES.search(told, at)
            end = mark.start() if mark else len(told)
            options, at = [told[at:end]], end
        said = [before + option for before in said for option in options]
    return [(one, at) for one in said]


def choice(told: str, at: int) -> tuple[list[str], int]:
    options: list[str] = []
    while told[at] != "}":
        found = sequence(told, at + 1)
        options += [said for said, _ in found]
        at = found[0][1]
    return options, at + 1


@cache
def _read() -> Any:
    return reader(None, "en", MODEL)


def heard(text: str) -> str:
    """What the built-in model is given, " / " between sentences."""
    said = ""
    for piece in pieces_of_text(text, TextOptions()):
        for _, part in readings(piece, _read(), LONGEST):
            said += " " + INITIAL.sub(r"\1", part)
    return " / ".join(part.strip() for part in END.split(said) if re.search(r"\w", part))


def squashed(text: str) -> str:
    """The letters alone, and where sentences end."""
    return re.sub(r"[^\w/]", "", text.casefold())


def sounds(text: str, told: bool = False) -> str:
    """The sounds, without stress and articles. In a reading from a table, a lone capital is the name of the letter."""
    parts = []
    for sentence in text.split(" / "):
        if told:
            sentence = re.sub(r"\bA (?=[A-Z]\b)", "ay ", sentence)  # A W S begins with no article
        sentence = ARTICLE.sub("", sentence)
        parts.append(QUIET.sub("", phonemes(re.sub(r"\bA\b", "ay", sentence) if told else sentence)))
    return "/".join(parts)


def alike(one: str, other: str) -> int:
    """How many letters two readings share at their beginnings and ends."""
    shared = [same(one, other), same(one[::-1], other[::-1])]
    return len(one) + len(other) if one == other else sum(shared)


def same(one: str, other: str) -> int:
    """How many letters two texts begin with alike."""
    return next((n for n, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), len(one))


def is_right(line: Line, said: str) -> bool:
    """Whether it sounds as one of the readings does."""
    told = {reading for choices in line.readings for reading in expanded(choices)}
    flat = squashed(said)
    nearest = sorted(told, key=lambda reading: (-alike(squashed(reading), flat), reading))[:MOST_COMPARED]
    try:
        heard_sounds = sounds(said)
        return any(sounds(reading, told=True) == heard_sounds for reading in nearest)
    except Exception:
        return False


def wrong_lines(table: str) -> list[tuple[Line, str]]:
    """The lines that are read otherwise than the table allows, each with what is said."""
    found = []
    for line in lines_of(table):
        try:
            said = heard(line.text)
        except Exception as error:
            found.append((line, f"{type(error).__name__}: {error}"))
            continue
        if not is_right(line, said):
            found.append((line, said))
    return found


def known_wrong(table: str) -> list[str]:
    """The texts of a table that are known to be read wrong."""
    rows = [row.split("\t") for row in KNOWN_WRONG.read_text("utf-8").splitlines() if not row.startswith("# ")]
    return [row[1] for row in rows if row[0] == table]


def phrases() -> list[tuple[str, str, set[int]]]:
    """Long sentences: kind, text, and after how many words a reader may pause."""
    found, kind = [], ""
    for row in (FOLDER / "phrases.txt").read_text("utf-8").splitlines():
        if row.startswith("# "):
            kind = row[5:] if row.startswith("# -- ") else kind
            continue
        parts = [len(part.split()) for part in row.split(" | ")]
        found.append((kind, row.replace(" | ", " "), {sum(parts[:n]) for n in range(1, len(parts))}))
    return found


def cuts_of(text: str) -> list[int]:
    """After how many words a long sentence is cut."""
    parts = [part for piece in pieces_of_text(text) for part, _ in readings(piece, _read(), LONGEST)]
    counts = [len(part.as_written.split()) for part in parts]
    return [sum(counts[:n]) for n in range(1, len(counts))]


def tell(figure: str) -> None:
    sys.stdout.write(f"{figure}\n")


def main() -> None:
    rows = [
        f"# Lines of the tables that are read wrong: table, text, what is said. Written by {Path(__file__).name} -w."
    ]
    for table in TABLES:
        wrong = wrong_lines(table)
        rows += [f"{table}\t{line.text}\t{said}" for line, said in wrong]
        tell(f"# {table}: {len(lines_of(table)) - len(wrong)} of {len(lines_of(table))} are read right")
    if sys.argv[1:] == ["-w"]:
        KNOWN_WRONG.write_text("\n".join(rows) + "\n", "utf-8")
    else:
        tell("\n".join(rows))
    good = [cut in allowed for _, text, allowed in phrases() for cut in cuts_of(text)]
    tell(f"# phrases: {sum(good)} of {len(good)} cuts stand at a phrase's border")


if __name__ == "__main__":
    main()
