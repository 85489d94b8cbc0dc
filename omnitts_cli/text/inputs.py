"""From a file or a pipe to pieces: format, bytes, cleaning, splitting, lexicon, in this order and in one pass."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import PurePath
from typing import BinaryIO, Literal, get_args

from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.text.clean import Cleaner, clean, nothing_to_speak
from omnitts_cli.text.decode import TextDecoder, decode
from omnitts_cli.text.formats.block import LARGEST_DOCUMENT, Block
from omnitts_cli.text.given import as_words
from omnitts_cli.text.lexicon import Lexicon
from omnitts_cli.text.piece import Piece
from omnitts_cli.text.split import Mode, Splitter

InputFormat = Literal["text", "md", "ssml", "srt", "epub", "html", "article"]
INPUT_FORMATS: tuple[InputFormat, ...] = get_args(InputFormat)
SUFFIXES: dict[str, InputFormat] = {
    ".md": "md", ".markdown": "md", ".ssml": "ssml", ".srt": "srt", ".vtt": "srt", ".epub": "epub",
    ".html": "html", ".htm": "html", ".xhtml": "html",
}  # fmt: skip
READ_BYTES = 65_536
MOST_SILENT = 16 << 20  # bytes without a word that are read; /dev/zero has no end


@dataclass
class TextOptions:
    """How text becomes pieces; `language` is a code such as "en", for the splitter's rules."""

    mode: Mode = "auto"
    language: str | None = None
    encoding: str | None = None
    lexicon: Lexicon = field(default_factory=Lexicon)
    pauses: bool = True
    notices: list[str] = field(default_factory=list)  # about the text, in the order of the text

    def splitter(self) -> Splitter:
        return Splitter(self.mode, self.language, pauses=self.pauses, notices=self.notices)


def input_format(path: str | None, name: str | None = None) -> InputFormat:
    """The format by --input-format, else by the suffix, else plain text."""
    if name is None or name == "auto":
        return SUFFIXES.get(PurePath(path or "").suffix.lower(), "text")
    if name not in INPUT_FORMATS:
        raise UsageError(f"unknown --input-format '{name}'", hint=f"one of: auto, {', '.join(INPUT_FORMATS)}")
    return name  # type: ignore[return-value]


class TextStream:
    """Plain text as it arrives: bytes in, pieces out. For a pipe that stays open."""

    def __init__(self, options: TextOptions, name: str = "standard input") -> None:
        self._decoder = TextDecoder(options.encoding, name)
        self._cleaner = Cleaner()
        self._splitter = options.splitter()
        self._lexicon = options.lexicon
        self._name, self._silent = name, 0  # bytes since the last words
        self.characters = 0

    def feed(self, data: bytes) -> list[Piece]:
        """The pieces that are certain after these bytes; a finished line never waits."""
        pieces = self._split(self._cleaner.feed(self._decoder.feed(data)))
        self._silent = 0 if any(piece.speech for piece in pieces) else self._silent + len(data)
        if self._silent > MOST_SILENT:
            raise InputError(f"there are no words in {MOST_SILENT >> 20} MiB of {self._name}")
        return pieces

    def idle(self) -> list[Piece]:
        """The rest of finished lines, when nothing has arrived for a while."""
        return self._spoken(self._splitter.idle())

    def flush(self) -> list[Piece]:
        """The rest, at the end of the input."""
        pieces = self._split(self._cleaner.feed(self._decoder.feed(b"", final=True)))
        pieces += self._split(self._cleaner.flush())
        return pieces + self._spoken(self._splitter.flush())

    def _split(self, text: str) -> list[Piece]:
        self.characters += len(text)
        return self._spoken(self._splitter.feed(text))

    def _spoken(self, pieces: list[Piece]) -> list[Piece]:
        return with_lexicon(pieces, self._lexicon)


def with_lexicon(pieces: list[Piece], lexicon: Lexicon) -> list[Piece]:
    if not len(lexicon):
        return pieces
    return [replace(piece, text=lexicon.apply(piece.text), written=piece.as_written) if piece.speech else piece
            for piece in pieces]  # fmt: skip


def as_written(pieces: list[Piece]) -> list[Piece]:
    """The same pieces; where words have given sounds, with what subtitles show instead."""
    words = [as_words(piece.text) for piece in pieces]
    return [
        piece if piece.text == own else replace(piece, written=own) for piece, own in zip(pieces, words, strict=True)
    ]


def pieces_of_text(text: str, options: TextOptions | None = None, form: InputFormat = "text") -> Iterator[Piece]:
    """The pieces of a complete text, such as the command's own words, in any format that is text."""
    chosen = options or TextOptions()
    if form == "epub":
        raise UsageError("an EPUB book is a file, not words", hint="omnitts say -f book.epub")
    if form != "text":
        yield from pieces_of_document(BytesIO(text.encode()), form, replace(chosen, encoding=None), "the text")
        return
    splitter = chosen.splitter()
    yield from with_lexicon(splitter.flush(clean(text)), chosen.lexicon)


def pieces_of_stream(file: BinaryIO, options: TextOptions, name: str = "standard input") -> Iterator[Piece]:
    """The pieces of plain text, each as soon as it is certain. `file` gives what is there: unbuffered, or read1."""
    stream = TextStream(options, name)
    read = getattr(file, "read1", file.read)
    while data := read(READ_BYTES):
        yield from stream.feed(data)
    yield from stream.flush()


def pieces_of_document(file: BinaryIO, form: InputFormat, options: TextOptions, name: str) -> Iterator[Piece]:
    """The pieces of a file of any format."""
    if form == "text":
        yield from pieces_of_stream(file, options, name)
        return
    splitter, gap = options.splitter(), None  # after a flush, the splitter does not know the next gap
    for block in blocks_of(file, form, options.encoding, name, options.notices, options.language):
        pieces = block_pieces(splitter, block)
        if gap is not None and pieces and not block.pause_s:
            pieces[0] = replace(pieces[0], gap=gap)
        gap = block.then if pieces and in_its_language(block) else None
        yield from with_lexicon(as_written(pieces), options.lexicon)
    yield from with_lexicon(as_written(splitter.flush()), options.lexicon)


def in_its_language(block: Block) -> bool:
    """Whether its language is not that of the words beside it."""
    return bool(block.language) or block.then != "paragraph"


def block_pieces(splitter: Splitter, block: Block) -> list[Piece]:
    """A block ends with a paragraph or where its language does, or it is a pause."""
    if block.pause_s > 0.0:
        return splitter.pause(block.pause_s)
    text = clean(block.text) + "\n\n"
    if not in_its_language(block):
        return splitter.feed(text)
    pieces = [replace(piece, language=block.language) for piece in splitter.flush(text)]
    if pieces and block.then == "none":
        pieces[-1] = replace(pieces[-1], goes_on=True)
    return pieces


def blocks_of(
    file: BinaryIO,
    form: InputFormat,
    encoding: str | None,
    name: str,
    notices: list[str],
    language: str | None = None,
) -> Iterable[Block]:
    """The blocks of a document; InputError where it breaks its format's rules or our limits. `language`: its code, if
    it was given beside the document."""
    data = file.read(LARGEST_DOCUMENT + 1)
    if len(data) > LARGEST_DOCUMENT:
        raise InputError(f"{name} is larger than {LARGEST_DOCUMENT >> 20} MiB; only plain text has no limit")
    if form == "epub":
        from omnitts_cli.text.formats.epub import epub_blocks

        return epub_blocks(BytesIO(data), name)
    text = decode(data, encoding, name)
    if form == "ssml":
        from omnitts_cli.text.formats.ssml import ssml_blocks

        return ssml_blocks(text, name, notices, language)
    if form == "srt":
        from omnitts_cli.text.formats.srt import srt_blocks

        notices.append(f"{name}: subtitles are read one after the other; their times are not kept")
        return srt_blocks(clean(text), name, notices)
    if form == "html":
        from omnitts_cli.text.formats.html import html_blocks

        return html_blocks(text)
    if form == "article":
        from omnitts_cli.text.formats.article import article_blocks

        return article_blocks(text, name)
    from omnitts_cli.text.formats.markdown import markdown_blocks

    return markdown_blocks(clean(text))


def require_speech(pieces: Iterable[Piece], text: str = "", names: Sequence[str] = ()) -> Iterator[Piece]:
    """The same pieces; InputError `nothing to speak` where none of them has words. `names`: of the files."""
    spoken = False
    for piece in pieces:
        spoken = spoken or piece.speech
        yield piece
    if not spoken:
        raise nothing_to_speak(text, names)
