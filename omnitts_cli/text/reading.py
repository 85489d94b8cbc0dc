"""Reading: prepares a piece for the model: splits it if it is too long to be spoken well in one piece, and writes it in
words that the model can read. Each part keeps the text as it was written, for subtitles and results.

Models that read plain letters only get numbers and signs spelled out, unless --no-normalize is given. Other models read
digits and signs themselves, and get the text unchanged unless --normalize is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any, Protocol

from omnitts_cli.errors import Notice, UsageError
from omnitts_cli.text.clean import has_speech
from omnitts_cli.text.piece import Piece
from omnitts_cli.text.split import NEVER_LAST, Splitter

Read = Callable[[str], str]

GROWTH = 4 / 3  # how much longer a piece may become by spelling out numbers before it is split again
GOES_ON = "…"  # written form of the later parts of one long number; the first part shows all of it


def readings(piece: Piece, read: Read | None, longest: int | None) -> list[tuple[Piece, str]]:
    """The parts of a piece, each with the text for the model. `longest`: letters that it speaks well in one piece."""
    parts = parts_of(piece, longest)
    if read is None:
        return [(part, part.text) for part in parts]
    return [reading for part in parts for reading in read_part(part, read, longest)]


def parts_of(piece: Piece, longest: int | None) -> list[Piece]:
    """The piece in parts of at most `longest` letters."""
    if longest is None or len(piece.text) <= longest:
        return [piece]
    splitter = Splitter(largest=longest, pauses=False)
    parts = [part for part in splitter.feed(piece.text) + splitter.flush() if part.speech]
    # a sentence keeps its closing marks together, and only they may lie beyond
    parts = without_short_end([replace(part, text=part.text[:longest]) for part in parts], longest)
    texts = [part.text for part in parts]
    written = shares(piece.written, texts) if piece.written else [""] * len(parts)
    return [
        replace(piece, text=text, written=own, gap=part.gap if n else piece.gap)
        for n, (part, text, own) in enumerate(zip(parts, texts, written, strict=True))
    ]


def without_short_end(parts: list[Piece], longest: int) -> list[Piece]:
    """The parts, with the last two divided evenly if the last would be a few words of the same sentence."""
    if len(parts) < 2 or parts[-1].gap != "none" or len(parts[-1].text) >= longest / 4:
        return parts
    joined = replace(parts[-2], text=f"{parts[-2].text} {parts[-1].text}")
    halves = min(halves_of(joined), key=lambda two: cost_of_cut(*(half.text for half in two)), default=())
    return [*parts[:-2], *halves] if halves and max(len(half.text) for half in halves) <= longest else parts


def read_part(piece: Piece, read: Read, longest: int | None) -> list[tuple[Piece, str]]:
    """The piece in words; cut again if they are too many."""
    text = read(piece.text)
    if longest is None or len(text) <= longest * GROWTH:
        return [(piece, text)]
    return cut_again(piece, text, read, longest)


def cut_again(piece: Piece, text: str, read: Read, longest: int) -> list[tuple[Piece, str]]:
    """Between two written words, so that a number is not cut; but inside a number that is nearly the whole piece."""
    if len(text) <= longest:
        return [(piece, text)]
    cuts = [[(half, read(half.text)) for half in halves] for halves in halves_of(piece)]
    cuts = [cut for cut in cuts if min(len(words) for _, words in cut) >= longest / 6]
    if cuts:
        best = min(cuts, key=lambda cut: cost_of_cut(*(words for _, words in cut)))
        return [reading for half, words in best for reading in cut_again(half, words, read, longest)]
    if len(text) <= longest * GROWTH:
        return [(piece, text)]
    parts = parts_of(replace(piece, text=text, written=piece.as_written), longest)
    return [(part, read(part.text)) for part in parts]


def halves_of(piece: Piece) -> Iterator[tuple[Piece, Piece]]:
    """The piece cut in two at each space between two words, but not between the digits of a number like 10 000."""
    text = piece.text
    for place in (space.start() for space in re.finditer(r" (?<!\d )| (?!\d{3}(?!\d))", text)):
        if not (has_speech(text[:place]) and has_speech(text[place:])):
            continue
        halves = [text[:place], text[place + 1 :]]
        written = shares(piece.written, halves) if piece.written else ["", ""]
        first, second = (replace(piece, text=half, written=own) for half, own in zip(halves, written, strict=True))
        yield first, replace(second, gap="none")


def cost_of_cut(first: str, second: str) -> float:
    """How bad a cut is: 0 in the middle, 1 at the ends; less after a comma, more after a word like "the" or "of"."""
    cost = abs(len(first) - len(second)) / (len(first) + len(second))
    last = first.rsplit(None, 1)[-1].lower()
    if last.rstrip(".").endswith((",", ";", ":", "，", "；", "：")):
        return cost - 0.5
    return cost + 0.5 * (last.rstrip(".") in NEVER_LAST)


def shares(written: str, parts: Sequence[str]) -> list[str]:
    """The words of `written`, distributed over the parts of its spoken text.

    A word that became several belongs to the part where they begin.
    """
    words = written.split()
    made = [plain(word) for part in parts for word in part.split()]
    changes = SequenceMatcher(None, [plain(word) for word in words], made, autojunk=False).get_opcodes()
    found, begin, spoken = [], 0, 0
    for part in parts:
        spoken += len(part.split())
        end = max(begin, written_before(changes, spoken))
        found.append(" ".join(words[begin:end]) or GOES_ON)
        begin = end
    return found


def written_before(changes: Sequence[tuple[str, int, int, int, int]], spoken: int) -> int:
    """How many written words the first `spoken` words were made of."""
    for change, first, last, made_first, made_last in changes:
        if spoken <= made_last:
            if change == "equal":
                return first + spoken - made_first
            return last if spoken > made_first else first
    return changes[-1][2] if changes else 0


def plain(word: str) -> str:
    """A word without its marks and capitals, so that the two texts can be compared."""
    return re.sub(r"\W+", "", word).casefold() or word


EXTRA = ("zh", "ja")  # languages that wetext knows


class Reads(Protocol):
    """A model, or the known properties of one that is not loaded."""

    @property
    def plain_letters(self) -> bool:
        """Whether it reads English letters only."""
        ...


def read_transcript(words: str, model: Reads) -> str:
    """The transcript of a clip, normalised as the text is: the model gets both in one prompt."""
    read = reader(None, None, model)
    return read(words) if read else words


def reader(
    wanted: bool | None,
    language: str | None,
    model: Reads,
    *,
    parts: bool = False,
    tell: Callable[[Notice], None] = lambda notice: None,
) -> Read | None:
    """The normaliser for this model; None: text stays as it is. `language`: a code, or None if it is unknown.

    With `parts`, texts may be parts of sentences.
    """
    if wanted is False or not (wanted or model.plain_letters):
        return None
    if model.plain_letters:
        from omnitts_cli.text.spell_out import plain_letters, plain_part

        return plain_part if parts else plain_letters
    if language is None:
        what = "--normalize: cannot detect the language of the text; reading numbers in English (set it with -l)"
        tell(Notice(what, plain=True))
    return normaliser(language or "en")


def normaliser(language: str) -> Read:
    """Numbers, dates, units and signs as words of that language."""
    if language == "en":
        from omnitts_cli.text.spell_out import spell_out

        return spell_out
    if language not in EXTRA:
        raise UsageError(f"--normalize does not support '{language}'", hint=f"supported: en, {', '.join(EXTRA)}")
    return of_wetext(language)


def of_wetext(language: str) -> Read:
    """The reader of wetext for a language; raises UsageError without wetext."""
    try:
        from wetext import Normalizer
    except ImportError:
        raise UsageError(
            f"--normalize for '{language}' needs wetext, which is not installed",
            hint="pip install wetext",
        ) from None
    rules: Any = Normalizer(lang=language, operator="tn")
    return lambda text: str(rules.normalize(text))
