"""Block: a paragraph of a document, or a pause. Document: its chapters. And the limits of untrusted documents."""

from dataclasses import dataclass, field

from omnitts_cli.text.piece import Break

LARGEST_DOCUMENT = 64 * 2**20
DEEPEST = 32


@dataclass(frozen=True)
class Block:
    """Words that end with a paragraph, or with `then`; or, without words, `pause_s` seconds of silence.

    `start_s` is when it is shown, in a subtitle file. `level` is that of a heading, 1 for the highest. A block with an
    `anchor` marks the place of an element's id, and has no words.
    """

    text: str = ""
    pause_s: float = 0.0
    language: str = ""  # its code, where the document says it
    then: Break = "paragraph"
    start_s: float | None = None
    level: int = 0
    anchor: str = ""


@dataclass
class Section:
    """A chapter of a document: its title and its blocks."""

    title: str
    blocks: list[Block] = field(default_factory=list)


@dataclass
class Document:
    """A whole document in chapters. `cover` is a JPEG or PNG file."""

    title: str = ""
    author: str = ""
    language: str = ""
    cover: bytes | None = None
    sections: list[Section] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
