"""Reading: a piece as the model hears it: cut where it is more than the model says well in one go, and in words that
the model can read. Subtitles and results keep it as written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnitts_cli.text.piece import Piece
from omnitts_cli.text.split import Splitter

Read = Callable[[str], str]

GROWTH = 4 / 3  # numbers as words may make a piece so much longer before it is cut again


def readings(piece: Piece, read: Read | None, longest: int | None) -> list[tuple[Piece, str]]:
    """The parts of a piece, each with the text that the model hears. `longest`: letters that it says well in one go."""
    parts = parts_of(piece, longest)
    return (
        [(part, part.text) for part in parts] if read is None else [r for p in parts for r in heard(p, read, longest)]
    )


def parts_of(piece: Piece, longest: int | None) -> list[Piece]:
    """The piece in parts of at most `longest` letters."""
    if longest is None or len(piece.text) <= longest:
        return [piece]
    splitter = Splitter(largest=longest, pauses=False)
    parts = [part for part in splitter.feed(piece.text) + splitter.flush() if part.speech]
    # a sentence keeps its closing marks together, and only they may lie beyond
    return [replace(piece, text=part.text[:longest], gap=part.gap if n else piece.gap) for n, part in enumerate(parts)]


def heard(piece: Piece, read: Read, longest: int | None) -> list[tuple[Piece, str]]:
    """The piece as it is read; cut again, now in words, where those are too many."""
    text = read(piece.text)
    if longest is None or len(text) <= longest * GROWTH:
        return [(piece, text)]
    return [(part, read(part.text)) for part in parts_of(replace(piece, text=text), longest)]
