"""Workload: which texts are spoken by which voice. The same seed gives the same workload."""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omnitts_cli import files
from omnitts_cli.bench.record import Work
from omnitts_cli.errors import InputError
from omnitts_cli.request import Request
from omnitts_cli.text.clean import clean, nothing_to_speak
from omnitts_cli.text.piece import Piece
from omnitts_cli.text.reading import reader, readings
from omnitts_cli.text.split import split
from omnitts_cli.voices import Named, Voice

if TYPE_CHECKING:
    from omnitts_cli.models.roles import SpeechModel

Length = Literal["short", "medium", "long", "mix"]
LENGTHS: tuple[Length, ...] = ("short", "medium", "long", "mix")
LARGEST_BYTES = 16 * 2**20


@dataclass(frozen=True)
class BenchText:
    """A text and its language; None: the model decides."""

    words: str
    language: str | None = None


def folder() -> Path:
    """The folder of the texts: package data in a wheel, `samples/texts/` in the source tree."""
    package = Path(__file__).parent.parent
    packed = package / "texts_data"
    return packed if packed.is_dir() else package.parent / "samples" / "texts"


def languages() -> list[str]:
    """Languages with built-in texts."""
    return sorted(path.stem for path in folder().glob("*.txt"))


def sample_texts(wanted: Sequence[str], length: Length) -> list[BenchText]:
    """Texts of a length, alternating between languages."""
    columns = [[BenchText(words, language) for words in of_length(lines_of(language), length)] for language in wanted]
    turns = itertools.zip_longest(*columns)
    return [text for turn in turns for text in turn if text is not None]


def lines_of(language: str) -> list[str]:
    path = folder() / f"{language}.txt"
    return [line.strip() for line in files.read_text(path, LARGEST_BYTES).splitlines() if line.strip()]


def of_length(lines: Sequence[str], length: Length) -> list[str]:
    """A third of the lines by length, in file order. Scripts differ in density, so lines are compared within their
    language."""
    if length == "mix":
        return list(lines)
    ranks = sorted(range(len(lines)), key=lambda index: len(lines[index]))
    third = LENGTHS.index(length)
    chosen = ranks[third * len(lines) // 3 : (third + 1) * len(lines) // 3]
    return [lines[index] for index in sorted(chosen)]


def read_texts(path: Path, language: str | None) -> list[BenchText]:
    """A file of texts, one per line."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise InputError(f"{path} is larger than {LARGEST_BYTES // 2**20} MiB", hint="a file of one text per line")
        lines = files.read(path, LARGEST_BYTES, pipes=True).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text", cause=f"byte {error.start}") from None
    except OSError as error:
        raise InputError(
            f"cannot read {path}", cause=error.strerror, hint="--texts FILE   with one text per line"
        ) from None
    texts = [BenchText(line.strip(), language) for line in lines if line.strip()]
    if not texts:
        raise InputError(f"{path} contains no text", hint="one text per line")
    return texts


def requests(texts: Sequence[BenchText], model: "SpeechModel") -> list[BenchText]:
    """The texts as requests: split and normalised as by `say` if the model reads plain letters only or has
    a longest piece; otherwise each text is one request, unchanged.
    """
    read = reader(None, None, model)
    if read is None and model.longest_piece is None:
        return list(texts)
    found = []
    for text in texts:
        pieces = split(clean(text.words)) if model.longest_piece else [Piece(text.words, 0, len(text.words))]
        parts = (words for piece in pieces for _, words in readings(piece, read, model.longest_piece) if words)
        found += [BenchText(words, text.language) for words in parts]
    if not found:
        raise nothing_to_speak(" ".join(text.words for text in texts))
    return found


@dataclass(frozen=True)
class Workload:
    """Everything that determines the requests. `about` goes into the report."""

    texts: Sequence[BenchText]
    voice: Voice = field(default_factory=Named)
    encode: Callable[[], Voice] | None = None  # makes the voice again for each request
    style: str | None = None
    seed: int = 0
    frames: int | None = None  # a fixed number of frames; the end code is ignored

    def works(self) -> Iterator[Work]:
        """Endless requests: the texts in shuffled order, repeatedly, each with its own seed."""
        order = list(self.texts)
        random.Random(self.seed).shuffle(order)
        for number in itertools.count():
            text = order[number % len(order)]
            request = Request(
                text.words,
                self.voice,
                text.language,
                self.style,
                seed=self.seed + number,
                max_frames=self.frames,
                ignore_end=self.frames is not None,
            )
            yield Work(request, self.encode)

    def about(self) -> dict[str, Any]:
        """What the report says about it."""
        return {
            "texts": len(self.texts),
            "characters": sum(len(text.words) for text in self.texts) / len(self.texts),
            "languages": sorted({text.language or "auto" for text in self.texts}),
            "frames": self.frames,
        }
