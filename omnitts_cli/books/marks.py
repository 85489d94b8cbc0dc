"""What a book's file says about itself: tags, chapters, cover."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Mark:
    """A chapter and its place in the sound, in seconds."""

    title: str
    start_s: float
    end_s: float
    number: int = 0
    spoken: int = 0  # units that this run has spoken
    units: int = 0


@dataclass
class Marks:
    """What a book's file says about itself. `tags` by the names of ffmpeg: title, artist, album."""

    chapters: list[Mark] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    cover: bytes | None = None
