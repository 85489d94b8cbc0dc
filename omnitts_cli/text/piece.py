"""Piece: a stretch of text that is spoken in one request, or a pause; with its place in the text and the break before
it."""

from dataclasses import dataclass
from typing import Literal

Break = Literal["none", "sentence", "paragraph"]


@dataclass(frozen=True)
class Piece:
    """A run of text to speak, or `pause_s` seconds of silence and no text.

    `gap` is the break *before* the piece, so that a piece can be spoken before the text after it is known. `start` and
    `end` count characters of the cleaned text. `paragraph` counts from 0.
    """

    text: str
    start: int
    end: int
    paragraph: int = 0
    gap: Break = "none"
    pause_s: float = 0.0
    goes_on: bool = False  # its sentence continues in the next piece
    language: str = ""  # its code, where it is known
    written: str = ""  # what subtitles show, where a lexicon or words for numbers have changed the text

    @property
    def as_written(self) -> str:
        return self.written or self.text

    @property
    def speech(self) -> bool:
        return bool(self.text)

    def gap_s(self, sentence_s: float, paragraph_s: float) -> float:
        """The silence before this piece; the length of a pause is added in full."""
        return {"none": 0.0, "sentence": sentence_s, "paragraph": paragraph_s}[self.gap]
