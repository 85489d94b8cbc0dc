"""Script: the pieces to be spoken, as they become known. From the command line, from files, or from a pipe
that stays open."""

from __future__ import annotations

import os
import queue
import select
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from omnitts_cli.errors import InputError, OmniError, UsageError

if TYPE_CHECKING:
    from omnitts_cli.cli.options import TextIn
    from omnitts_cli.text.piece import Piece

STDIN_BLOCK = 1 << 16
FIRST_S = 0.1  # /dev/null and the like have told by then that they are empty
QUIET_S = 0.3  # a pipe that says nothing for so long has finished its sentence
PIECES_AHEAD = 256  # of a pipe that writes faster than we speak


class Script(Protocol):
    """`take` gives the next piece; None when none is known yet. `ended`: there will be no more.

    `refuse_empty` raises if it is already certain that there is nothing to speak.
    """

    ended: bool
    chars: int | None  # of the whole text, where it is known

    def take(self, wait_s: float) -> Piece | None: ...

    def refuse_empty(self) -> None: ...


class Written:
    """A text that is all there. Pieces are cut only when they are asked for."""

    def __init__(self, pieces: Iterable[Piece], chars: int | None) -> None:
        self._pieces = iter(pieces)
        self.chars, self.ended = chars, False

    def take(self, wait_s: float) -> Piece | None:
        piece = next(self._pieces, None)
        self.ended = piece is None
        return piece

    def refuse_empty(self) -> None:
        """That was done when the text was read."""


class Piped:
    """A text that is still being written. A thread reads it, so that speaking never waits for it."""

    def __init__(self, lines: Iterator[list[Piece]]) -> None:
        self.chars: int | None = None
        self.ended = False
        self._first: list[Piece | None] = []
        self._queue: queue.Queue[Piece | OmniError | None] = queue.Queue(PIECES_AHEAD)
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterator[list[Piece]]) -> None:
        try:
            for pieces in lines:
                for piece in pieces:
                    self._queue.put(piece)
        except OmniError as error:
            self._queue.put(error)
        self._queue.put(None)

    def take(self, wait_s: float) -> Piece | None:
        if self.ended:
            return None
        if self._first:
            return self._first.pop()
        try:
            found = self._queue.get(timeout=wait_s) if wait_s else self._queue.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, OmniError):
            self.ended = True
            raise found
        self.ended = found is None
        return found

    def refuse_empty(self) -> None:
        self._first = [piece for piece in [self.take(FIRST_S)] if piece]


class Heard:
    """The script of live speech has no pieces of its own; it only says whether it has ended."""

    def __init__(self) -> None:
        self.chars: int | None = None
        self.ended = False

    def take(self, wait_s: float) -> None:
        return None

    def refuse_empty(self) -> None:
        """Nobody knows what will be written."""


def open_script(words: list[str] | None, options: TextIn, language: str | None, command: str) -> Script:
    """The text that the command was given; an error where there is none or two."""
    check_sources(words, options, command)
    if reads_pipe(words, options):
        return Piped(lines_of_stdin(options, language))
    return written_text(whole_text(words, options), options, language)


def live_texts(words: list[str] | None, options: TextIn, command: str) -> Iterator[str]:
    """The same text as it arrives, in no particular pieces."""
    from omnitts_cli.text.clean import clean

    check_sources(words, options, command)
    if reads_pipe(words, options):
        return texts_of_stdin(options)
    return iter([clean(whole_text(words, options))])


def check_sources(words: list[str] | None, options: TextIn, command: str) -> None:
    if words and options.file:
        raise UsageError("text is given twice, as words and by --file", hint="leave one of them out")
    if options.file.count("-") > 1:
        raise UsageError("stdin can be read only once", hint="give -f - once")
    if not words and not options.file and (sys.stdin is None or sys.stdin.isatty()):
        hint = f'omnitts {command} "Hello there"   or   omnitts {command} --help'
        raise UsageError("no text to speak", hint=hint)


def reads_pipe(words: list[str] | None, options: TextIn) -> bool:
    return not words and options.file in ((), ("-",))


def whole_text(words: list[str] | None, options: TextIn) -> str:
    """Words, or the files one after another."""
    if words:
        return " ".join(words)
    texts = [read_stdin(options) if name == "-" else read_file(name, options) for name in options.file]
    return "\n\n".join(texts)


def written_text(text: str, options: TextIn, language: str | None) -> Script:
    from omnitts_cli.text.clean import clean, has_speech, nothing_to_speak
    from omnitts_cli.text.split import split

    text = clean(text)
    if not has_speech(text):
        raise nothing_to_speak(text)
    return Written(split(text, options.split, language), len(text))  # type: ignore[arg-type]


def read_file(name: str, options: TextIn) -> str:
    from omnitts_cli.text.decode import decode

    try:
        data = Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read text file {name}: {reason.lower()}") from None
    return decode(data, options.encoding, name)


def read_stdin(options: TextIn) -> str:
    from omnitts_cli.text.decode import decode

    return decode(sys.stdin.buffer.read(), options.encoding, "standard input")


def texts_of_stdin(options: TextIn) -> Iterator[str]:
    """Stdin as clean text, as soon as it is certain. Empty strings tell that the pipe has gone quiet."""
    from omnitts_cli.text.clean import Cleaner
    from omnitts_cli.text.decode import Decoder

    decoder, cleaner = Decoder(options.encoding), Cleaner()
    descriptor = sys.stdin.fileno()
    while data := os.read(descriptor, STDIN_BLOCK):
        yield cleaner.feed(decoder.feed(data))
        if not select.select([descriptor], [], [], QUIET_S)[0]:
            yield ""
    yield cleaner.feed(decoder.feed(b"", final=True)) + cleaner.flush()


def lines_of_stdin(options: TextIn, language: str | None) -> Iterator[list[Piece]]:
    """Stdin in pieces, line by line while it is open; an empty one is an error."""
    from omnitts_cli.text.clean import nothing_to_speak
    from omnitts_cli.text.split import Splitter

    splitter = Splitter(options.split, language)  # type: ignore[arg-type]
    found = False
    for text in texts_of_stdin(options):
        pieces = splitter.feed(text) if text else splitter.idle()
        found = found or any(piece.speech for piece in pieces)
        yield pieces
    pieces = splitter.flush()
    if not (found or any(piece.speech for piece in pieces)):
        raise nothing_to_speak("")
    yield pieces
