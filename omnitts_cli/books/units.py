"""Units: a chapter in parts of about a minute, each in one voice. A unit is spoken, cached and resumed as a whole.

The text itself decides where a unit ends, so a change early in a chapter does not move the later ends: only the unit
that changed is spoken again.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from omnitts_cli.books.cast import CastWords, Member
from omnitts_cli.speech.speaking import SEED_BYTES
from omnitts_cli.text.clean import has_speech
from omnitts_cli.text.inputs import TextOptions, block_pieces, with_lexicon
from omnitts_cli.text.piece import Piece

SHORT, LONG, LONGEST = 400, 1600, 3200  # characters; LONGEST where a paragraph does not end
ONE_IN = 3  # paragraph ends that may end a unit


@dataclass(frozen=True)
class BookUnit:
    """Pieces in one voice. The silence in front of it is part of it."""

    member: Member
    pieces: tuple[Piece, ...]

    @property
    def chars(self) -> int:
        return sum(len(piece.text) for piece in self.pieces)

    @property
    def text(self) -> str:
        return " ".join(piece.as_written for piece in self.pieces if piece.speech)


def units_of(words: Iterable[CastWords], options: TextOptions, speaker_gap_s: float) -> list[BookUnit]:
    """The units of a chapter."""
    units: list[BookUnit] = []
    for run in runs(words):
        pieces = pieces_of(run, options)
        if units and pieces and run[0].block.level:
            pieces[0] = replace(pieces[0], gap="paragraph")
        elif units and pieces and speaker_gap_s:
            pieces.insert(0, Piece("", 0, 0, pause_s=speaker_gap_s))
        units += [BookUnit(run[0].member, tuple(part)) for part in parts(pieces)]
    return units


def runs(words: Iterable[CastWords]) -> Iterator[list[CastWords]]:
    """Paragraphs in a row in the same voice."""
    run: list[CastWords] = []
    for one in words:
        if run and one.member != run[-1].member:
            yield run
            run = []
        run.append(one)
    if run:
        yield run


def pieces_of(run: Sequence[CastWords], options: TextOptions) -> list[Piece]:
    splitter, pieces = options.splitter(), []
    for one in run:
        pieces += with_lexicon(block_pieces(splitter, one.block), options.lexicon)
    return pieces + with_lexicon(splitter.flush(), options.lexicon)


def parts(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """The pieces of a run, cut where a paragraph ends."""
    part: list[Piece] = []
    chars, paragraph = 0, ""
    for piece in pieces:
        ends = piece.gap == "paragraph" and chars >= SHORT and (chars >= LONG or chooses(paragraph))
        if part and (ends or (piece.gap == "sentence" and chars >= LONGEST)):
            yield part
            part, chars = [], 0
        paragraph = piece.text if piece.gap == "paragraph" else paragraph + piece.text
        chars += len(piece.text)
        part.append(piece)
    if any(has_speech(piece.text) or piece.pause_s for piece in part):
        yield part


def chooses(paragraph: str) -> bool:
    """Whether a unit may end after this paragraph: by its words alone."""
    return hashlib.blake2b(paragraph.encode("utf-8", "replace"), digest_size=2).digest()[0] % ONE_IN == 0


def key_of(unit: BookUnit, shared: str, digest: Callable[[Member], str]) -> str:
    """What the sound of a unit depends on, as 32 hexadecimal digits: two units with one key have the same sound."""
    member = unit.member
    parts = (
        shared,
        [(piece.text, piece.written, piece.gap, piece.pause_s) for piece in unit.pieces],
        digest(member),
        (member.style, member.speed, member.seed, member.language),
    )
    return hashlib.blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def seed_of(unit: BookUnit, seed: int) -> int:
    """The seed of a unit: from its words and the book's seed, wherever it stands."""
    parts = [(piece.text, piece.pause_s) for piece in unit.pieces]
    return int.from_bytes(
        hashlib.blake2b(f"{seed} {parts}".encode("utf-8", "replace"), digest_size=SEED_BYTES).digest()
    )
