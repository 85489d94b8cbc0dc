"""Piece: what is spoken in one go, or a pause; with its place in the text and the break in front of it."""

from __future__ import annotations

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
    written: str = ""  # what subtitles show, where a lexicon or words for numbers have changed the text

    @property
    def as_written(self) -> str:
        return self.written or self.text

    @property
    def speech(self) -> bool:
        return bool(self.text)

    def gap_s(self, sentence_s: float, paragraph_s: float) -> float:
        """The silence in front of this piece; a pause of its own counts in full and replaces nothing."""
        return {"none": 0.0, "sentence": sentence_s, "paragraph": paragraph_s}[self.gap]
