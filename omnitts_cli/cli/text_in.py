"""Where the text comes from: words on the command line, files, or a pipe that may stay open; and --dry-run."""

import os
import re
import select
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from omnitts_cli.audio.magic import HEAD_BYTES, no_text
from omnitts_cli.errors import InputError, OmniError, UsageError
from omnitts_cli.families.common.fields import Fields, ours_in
from omnitts_cli.settings.setting import nearest, readable_size
from omnitts_cli.settings.table import TextIn
from omnitts_cli.speech.script import Piped, Script, Written
from omnitts_cli.speech.speaking import estimated_s
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import estimate
from omnitts_cli.text import inputs
from omnitts_cli.text.clean import Cleaner, clean, nothing_arrived
from omnitts_cli.text.decode import TextDecoder, decode
from omnitts_cli.text.formats.block import LARGEST_DOCUMENT
from omnitts_cli.text.given import as_words
from omnitts_cli.text.inputs import TextOptions, TextStream, input_format, pieces_of_document
from omnitts_cli.text.language import LANGUAGES, detect
from omnitts_cli.text.lexicon import load_lexicon
from omnitts_cli.text.model_input import TextInput
from omnitts_cli.text.piece import Piece
from omnitts_cli.text.reading import language_readers, readings
from omnitts_cli.weights.find import here
from omnitts_cli.weights.names import HubName

STDIN_BLOCK = 1 << 16
SHOWN_BYTES = 200  # of a text without words, for the message
NAME_OF_FILE = re.compile(r"\S*[./]\S+", re.DOTALL)
ADDRESS = re.compile(r"https?://\S+")
IDLE_S = 0.3  # an unfinished line is spoken after this time without input


def open_script(words: list[str] | None, options: TextIn, language: str | None, command: str) -> Script:
    """The text that the command was given; an error where there is none or two. `language`: a code, or None."""
    words, options = as_meant(words, options)
    check_sources(words, options, command)
    how = text_options(options, language)
    text = as_utf8(" ".join(words or []))
    form = inputs.input_format(None, "auto" if options.file else options.input_format)
    spoken = inputs.pieces_of_text(text, how, form) if words else iter(())
    if words and not options.file:
        return Written(inputs.require_speech(spoken, text), len(text), how.notices)
    if reads_pipe(options) and not words:
        return Piped(lines_of_stdin(how), how.notices)
    names = options.file or ("-",)
    sources = [source(name, options) for name in names]
    files = pieces_of_files(names, sources, options, how, after=bool(words))
    pieces = inputs.require_speech(chain(spoken, files), names=options.file)
    return Written(pieces, known_chars(names), how.notices)


def live_texts(words: list[str] | None, options: TextIn, command: str) -> Iterator[str]:
    """The same text as it arrives, in no particular pieces."""
    words, options = as_meant(words, options)
    check_sources(words, options, command)
    before = [clean(as_utf8(" ".join(words)) + "\n\n" * bool(options.file))] if words else []
    if words and not options.file:
        return iter(before)
    if reads_pipe(options):
        return chain(before, texts_of_stdin(options))
    return chain(before, (clean(decode(whole(name), options.encoding, name)) for name in options.file))


def as_meant(words: list[str] | None, options: TextIn) -> tuple[list[str] | None, TextIn]:
    """A single dash as the text is stdin, as it is after -f."""
    if words != ["-"]:
        return words, options
    return None, replace(options, file=("-", *options.file))


def as_utf8(text: str) -> str:
    """Words of the command line that the locale could not decode; they are read as UTF-8."""
    try:
        return os.fsencode(text).decode()
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at offset {error.start}"
        hint = "--encoding cp1252 -f FILE   reads a file in another encoding"
        raise InputError(f"the text is not UTF-8: {byte}", hint=hint) from None
    except UnicodeEncodeError:  # half of a surrogate pair: reported when the text is cleaned
        return text


def check_sources(words: list[str] | None, options: TextIn, command: str) -> None:
    if words and len(words) == 1 and NAME_OF_FILE.fullmatch(words[0]):
        warn_of_name(words[0], command)
    if words and words[0].startswith("<speak") and options.input_format == "auto":
        console.warning("the text looks like SSML; its tags are spoken", hint="--input-format ssml")
    if words and options.file:
        name = " ".join([options.file[-1], *words])
        if os.path.isfile(name):
            raise UsageError(f"the name '{name}' has spaces, so it must be quoted", hint=f"-f {shlex.quote(name)}")
    if options.file.count("-") > 1:
        raise UsageError("stdin can be read only once", hint="give -f - once")
    if not words and not options.file and (sys.stdin is None or sys.stdin.isatty()):
        hint = f'omnitts {command} "Hello there"   or   omnitts {command} --help'
        raise UsageError("no text to speak", hint=hint)


def warn_of_name(word: str, command: str) -> None:
    """Warns if the text is the name of a file, or of a web page."""
    if os.path.isfile(word):
        console.warning(f"{word} is a file; only its name is spoken", hint=f"omnitts {command} -f {word}")
    if ADDRESS.fullmatch(word):
        hint = f"curl -sL {shlex.quote(word)} | omnitts {command} --input-format html"
        console.warning("the text is a web address; the address is spoken, not the page", hint=hint)


def reads_pipe(options: TextIn) -> bool:
    """Whether the text is plain and comes from a pipe that may stay open."""
    return options.file in ((), ("-",)) and options.input_format in ("auto", "text")


def text_options(options: TextIn, language: str | None) -> TextOptions:
    lexicon = load_lexicon([Path(name) for name in options.lexicon])
    return TextOptions(options.split, language, options.encoding, lexicon)  # type: ignore[arg-type]


def source(name: str, options: TextIn) -> BinaryIO | None:
    """An open pipe of text; None for a file, which is opened again at its turn, as there may be thousands.

    Checked here, so that a wrong name is reported before anything is loaded.
    """
    file = opened(name)
    if name == "-" or not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    with file:
        other = no_text(file.read(HEAD_BYTES))
    if other and input_format(name, options.input_format) != "epub":
        if other.startswith("sound"):
            hint = f'omnitts clone -r {shlex.quote(name)} "text"   speaks in its voice'
        else:
            hint = converted(name, other)
        raise InputError(f"text file {name} looks like {other}", hint=hint)
    return None


def converted(name: str, kind: str) -> str:
    """How to get the text of a document that is not read: the command of a common program."""
    quoted, suffix = shlex.quote(name), Path(name).suffix.lower()
    if suffix in (".docx", ".odt"):
        return f"pandoc -t markdown {quoted} | omnitts say --input-format md"
    if "PDF" in kind:
        return f"pdftotext {quoted} - | omnitts say"
    return "--input-format epub, if it is a book" if "ZIP" in kind else "convert it to plain text first"


def check_files(texts: Iterable[TextIn]) -> None:
    """Reports files that cannot be read before the first one is spoken. Pipes are opened at their turn."""
    for options in texts:
        for name in options.file:
            if name != "-" and not Path(name).is_fifo() and (file := source(name, options)) is not None:
                file.close()


def opened(name: str) -> BinaryIO:
    """A file of text, or stdin."""
    if name == "-":
        return open(os.dup(sys.stdin.fileno()), "rb")  # so that stdin itself stays open
    try:
        if Path(name).is_dir():
            raise IsADirectoryError(0, "it is a folder")
        return open(name, "rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read text file {name}: {reason.lower()}", hint=instead_of(name, "-f")) from None


def instead_of(name: str, option: str) -> str:
    """The hint for a file that cannot be opened: how to get it from the web, or the name that was most likely meant."""
    path = Path(name)
    if "://" in name:
        file = shlex.quote(path.name if len(path.parts) > 2 else "page.html")
        return f"curl -L {shlex.quote(name)} -o {file}   and then   {option} {file}"
    if os.path.isdir(name):
        return f"name a file in it; ls {shlex.quote(name)}   shows them"
    folder = next((one for one in path.parents if os.access(one, os.R_OK)), Path())
    names = {Path(known).stem: known for known in os.listdir(folder)} if folder == path.parent else {}
    close = nearest(path.stem, list(names))
    return f"{option} {shlex.quote(str(folder / names[close]))}" if close else f"ls {shlex.quote(str(folder))}"


def whole(name: str) -> bytes:
    """All of a file, which must not be endless."""
    with opened(name) as file:
        data = file.read(LARGEST_DOCUMENT + 1)
    if len(data) > LARGEST_DOCUMENT:
        raise InputError(f"{name} is larger than {LARGEST_DOCUMENT >> 20} MiB", hint=f"omnitts say -f {name}")
    return data


def pieces_of_files(
    names: Iterable[str], sources: list[BinaryIO | None], options: TextIn, how: TextOptions, *, after: bool = False
) -> Iterator[Piece]:
    """The pieces of several files, one after the other; `sources` are those of `source`. `after`: they follow words."""
    paragraph = int(after)
    for number, (name, pipe) in enumerate(zip(names, sources, strict=True), int(after)):
        with pipe or opened(name) as file:
            shown = "standard input" if name == "-" else name
            for piece in pieces_of_document(file, input_format(name, options.input_format), how, shown):
                # a file begins a paragraph of its own
                gap = "paragraph" if number and piece.start == 0 and piece.speech else piece.gap
                yield replace(piece, gap=gap, paragraph=paragraph + piece.paragraph)
        paragraph += 1


def known_chars(names: Iterable[str]) -> int | None:
    """How long the text is, about, for the progress line: plain files have about a character per byte."""
    try:
        return sum(os.path.getsize(name) for name in names) or None
    except OSError:
        return None


def texts_of_stdin(options: TextIn) -> Iterator[str]:
    """Stdin as clean text, as soon as it is certain."""
    decoder, cleaner = TextDecoder(options.encoding), Cleaner()
    descriptor = sys.stdin.fileno()
    while data := os.read(descriptor, STDIN_BLOCK):
        yield cleaner.feed(decoder.feed(data))
    yield cleaner.feed(decoder.feed(b"", final=True)) + cleaner.flush()


def idle(descriptor: int) -> bool:
    """Whether nothing arrives in a pipe for a moment."""
    try:
        return not select.select([descriptor], [], [], IDLE_S)[0]
    except OSError:  # Windows can wait for sockets only; then a sentence is spoken when the next one begins
        return False


def lines_of_stdin(how: TextOptions) -> Iterator[list[Piece]]:
    """Stdin in pieces, line by line while it is open; an empty one is an error."""
    stream, descriptor, found, head = TextStream(how), sys.stdin.fileno(), False, b""
    while data := os.read(descriptor, STDIN_BLOCK):
        head = head.lstrip() or data[:SHOWN_BYTES]
        for pieces in (stream.feed(data), stream.idle() if idle(descriptor) else []):
            found = found or any(piece.speech for piece in pieces)
            yield pieces
    pieces = stream.flush()
    if not (found or any(piece.speech for piece in pieces)):
        raise nothing_arrived(head.decode(errors="replace"))
    yield pieces


def rehearse(script: Script, model: str, variant: str, text: TextIn, language: str | None = None) -> None:
    """--dry-run: what will be spoken, how long it will be, and what the model weighs. `language`: given by -l."""
    known = known_of(model, variant)
    rows: list[list[str]] = []
    number, seconds, readers = 0, 0.0, None
    while not script.ended:
        piece = script.take(0.25)
        while script.notices:
            console.warning(script.notices.pop(0))
        if piece is None:
            continue
        if readers is None and piece.speech:
            seen = language or piece.language or detect(piece.text).language
            readers = language_readers(
                known,
                seen,
                text.normalize,
                certain=language is not None,
                unreadable=text.unreadable,
                tell=console.notice,
            )
        piece, read = readers.of(piece) if readers else (piece, None)
        for part, spoken in readings(piece, read, None if text.split == "none" else known.longest_piece):
            words = as_words(spoken)
            expected = part.pause_s or estimated_s(words)
            number, seconds = number + 1, seconds + expected
            rows.append([str(number), f"{expected:.1f} s", words or "(pause)"])
            shown = {"text": part.as_written, "spoken": words}
            if known.text_input:
                name = LANGUAGES.get(part.language or language or "")
                shown["tokenizer_input"] = TextInput(known.text_input, known.languages).read(spoken, name)
            console.record(status="ok", piece=number, expected_s=round(expected, 2), **shown)
    console.table(rows)
    console.note(f"{number} piece{'s' * (number != 1)}, {estimate(seconds)}{known.weight}")


@dataclass(frozen=True)
class Known:
    """What can be known about a model without loading it."""

    weight: str  # in words
    longest_piece: int | None = None
    plain_letters: bool = False
    text_input: str | None = None
    languages: tuple[str, ...] = ()


def known_of(name: str, variant: str) -> Known:
    """The size of a model, its longest piece, and whether it reads letters only."""
    try:
        found = here(name, variant=variant)
        if isinstance(found, HubName):
            return Known(f"; model {name} is not on this machine")
        if (folder := found.folder) is None:
            return Known("")
        ours = ours_in(Fields.read(folder / "config.json"))
        weight = f"; model {name}: {readable_size(sum(file.stat().st_size for file in folder.rglob('*.safetensors')))}"
        return Known(weight, ours.longest_piece, ours.plain_letters, ours.text_input, ours.languages or ())
    except OmniError as error:
        return Known(f"; {error.message}")
