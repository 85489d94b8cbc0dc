"""Block: a paragraph of a document, or a pause. And the limits that documents of strangers must keep."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_DOCUMENT = 64 * 2**20
DEEPEST = 32


@dataclass(frozen=True)
class Block:
    """Words that end with a paragraph; or, without words, `pause_s` seconds of silence.

    `start_s` is when it is shown, in a subtitle file.
    """

    text: str = ""
    pause_s: float = 0.0
    start_s: float | None = None
