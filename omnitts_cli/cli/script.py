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
QUIET_S = 0.3  # a pipe that says nothing for so long has finished its sentence
PIECES_AHEAD = 256  # of a pipe that writes faster than we speak


class Script(Protocol):
    """`take` gives the next piece; None when none is known yet. `ended`: there will be no more."""

    ended: bool
    chars: int | None  # of the whole text, where it is known

    def take(self, wait_s: float) -> Piece | None: ...


class Written:
    """A text that is all there. Pieces are cut only when they are asked for."""

    def __init__(self, pieces: Iterable[Piece], chars: int | None) -> None:
        self._pieces = iter(pieces)
        self.chars, self.ended = chars, False

    def take(self, wait_s: float) -> Piece | None:
        piece = next(self._pieces, None)
        self.ended = piece is None
        return piece


class Piped:
    """A text that is still being written. A thread reads it, so that speaking never waits for it."""

    def __init__(self, lines: Iterator[list[Piece]]) -> None:
        self.chars, self.ended = None, False
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
        try:
            found = self._queue.get(timeout=wait_s) if wait_s else self._queue.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, OmniError):
            self.ended = True
            raise found
        self.ended = found is None
        return found


def open_script(words: list[str] | None, options: TextIn, language: str | None, command: str) -> Script:
    """The text that the command was given; an error where there is none or two."""
    if words and options.file:
        raise UsageError("text is given twice, as words and by --file", hint="leave one of them out")
    if words:
        return written_text(" ".join(words), options, language)
    if not options.file:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError(
                "no text to speak", hint=f'omnitts {command} "Hello there"   or   omnitts {command} --help'
            )
        return piped(options, language)
    if options.file.count("-") > 1:
        raise UsageError("stdin can be read only once", hint="give -f - once")
    if options.file == ("-",):
        return piped(options, language)
    texts = [read_stdin(options) if name == "-" else read_file(name, options) for name in options.file]
    return written_text("\n\n".join(texts), options, language)


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


def piped(options: TextIn, language: str | None) -> Script:
    """Stdin, spoken line by line while it is open; an empty one is an error."""
    return Piped(lines_of_stdin(options, language))


def lines_of_stdin(options: TextIn, language: str | None) -> Iterator[list[Piece]]:
    from omnitts_cli.text.clean import Cleaner, nothing_to_speak
    from omnitts_cli.text.decode import Decoder
    from omnitts_cli.text.split import Splitter

    decoder, cleaner = Decoder(options.encoding), Cleaner()
    splitter = Splitter(options.split, language)  # type: ignore[arg-type]
    found = False
    descriptor = sys.stdin.fileno()
    while data := os.read(descriptor, STDIN_BLOCK):
        pieces = splitter.feed(cleaner.feed(decoder.feed(data)))
        found = found or bool(pieces)
        yield pieces
        if not select.select([descriptor], [], [], QUIET_S)[0]:
            yield splitter.idle()
    pieces = splitter.feed(cleaner.feed(decoder.feed(b"", final=True)) + cleaner.flush()) + splitter.flush()
    if not (found or any(piece.speech for piece in pieces)):
        raise nothing_to_speak("")
    yield pieces
