"""The only file that prints: errors and warnings on stderr, results on stdout, JSON for programs."""

import json
import os
import shutil
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from omnitts_cli.errors import Notice, OmniError, OutputError
from omnitts_cli.settings import environment

if TYPE_CHECKING:
    from omnitts_cli.settings.table import Messages

STDOUT, STDERR = 1, 2
SCHEMA = 1
NAME_WIDTH, SHORTEST_CELL = 24, 12  # columns of a table that are kept, and in a narrow terminal
MOST_ALIKE = 3
MORE = {"cut": "sentences cut at the requested length", "guard": "sentences cut where generation went wrong"}
RED, YELLOW, DIM, REVERSE, PLAIN = "\033[31m", "\033[33m", "\033[2m", "\033[7m", "\033[0m"


class Stdout:
    """The data channel: descriptor 1, moved away by `claim` before anything heavy is imported.

    After that, what any library prints lands on stderr; only what is written here reaches the reader of our output.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None

    def claim(self) -> None:
        """Keeps a copy of descriptor 1 for data and points descriptor 1 at stderr."""
        if self._file is not None:
            return
        try:
            copy = os.dup(STDOUT)
        except OSError:  # closed by the caller, as after `>&-`
            return
        os.set_inheritable(copy, False)
        point_at_stderr()
        self._file = open(copy, "wb", buffering=0)

    def release(self) -> None:
        """Restores descriptor 1, for tests that call main() more than once."""
        if self._file is None:
            return
        with suppress(OSError):
            os.dup2(self._file.fileno(), STDOUT)
        self._file.close()
        self._file = None

    @property
    def file(self) -> BinaryIO:
        """The open file for bytes."""
        if self._file is None:
            raise OutputError("cannot write to standard output: it is closed")
        return self._file

    def is_terminal(self) -> bool:
        return self._file is not None and self._file.isatty()

    def line(self, text: str) -> None:
        """One line of text, unbuffered. Undecodable file names are written as their original bytes."""
        self._put(text + "\n")

    def text(self, text: str) -> None:
        """Text of a model, unbuffered, without a line end; a terminal gets control characters escaped."""
        self._put(visible(text.replace("\t", "    ")) if self.is_terminal() else text)

    def _put(self, text: str) -> None:
        rest = memoryview(text.encode("utf-8", "surrogateescape"))
        while rest:
            rest = rest[self.file.write(rest) :]


def point_at_stderr() -> None:
    try:
        os.dup2(STDERR, STDOUT)
    except OSError:  # no stderr either
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, STDOUT)
        os.close(nowhere)


@dataclass
class Console:
    """Verbosity, colour and the JSON channel. Set once per command from its options."""

    stdout: Stdout = field(default_factory=Stdout)
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    json: bool = False
    color: str = "auto"
    audio_on_stdout: bool = False
    warnings: list[str] = field(default_factory=list)
    _alike: Counter[str] = field(default_factory=Counter)
    _moving: bool = False  # a progress line is visible
    _lock: Any = field(default_factory=threading.RLock)  # the progress line is drawn by its own thread

    def configure(self, messages: "Messages") -> None:
        self.quiet, self.json, self.color = messages.quiet, messages.json, messages.color
        self.verbose, self.debug = messages.verbose or messages.debug, messages.debug

    def reset(self) -> None:
        """Resets everything, for the next call of main() in one process."""
        self.__init__()  # type: ignore[misc]

    # Messages, on stderr.

    def problem(self, error: OmniError) -> None:
        """An error with its cause and a next step."""
        self._say(self._painted(RED, "error:"), error.message, error.cause, error.hint)

    def warning(self, message: str, *, cause: str | None = None, hint: str | None = None, kind: str = "") -> None:
        """A warning. Printed once; of one `kind`, only the first few."""
        if message in self.warnings:
            return
        if kind:
            self._alike[kind] += 1
            if self._alike[kind] > MOST_ALIKE:
                return
        self.warnings.append(message)
        if not self.quiet:
            self._say(self._painted(YELLOW, "warning:"), message, cause, hint)

    def notice(self, notice: Notice) -> None:
        """A notice from speech/."""
        if notice.plain:
            self.note("\n  try: ".join([notice.message, *([notice.hint] if notice.hint else [])]))
        else:
            self.warning(notice.message, cause=notice.cause, hint=notice.hint, kind=notice.kind)

    def report_repeats(self) -> None:
        """Prints how many warnings of each kind were left out."""
        for kind, count in self._alike.items():
            if count > MOST_ALIKE:
                self.warning(f"... and {count - MOST_ALIKE} more like this: {MORE[kind]}")
        self._alike.clear()

    def note(self, message: str) -> None:
        """One line of information."""
        if not self.quiet:
            self._write(visible(message))

    def detail(self, message: str) -> None:
        """A line that only --verbose shows."""
        if self.verbose and not self.quiet:
            self._write(self._painted(DIM, visible(message)))

    def event(self, line: str) -> None:
        """A progress line that stays."""
        self._write(line)

    def redraw(self, line: str, strong: str = "", rest: str = "") -> None:
        """A progress line that replaces the previous one, with a strong part. For terminals only."""
        with self._lock:
            self._moving = bool(line or strong)
            marked = f"{visible(line)}{self._marked(visible(strong))}{visible(rest)}"
            print(f"\r\033[K{marked}", end="", file=sys.stderr, flush=True)

    def _marked(self, text: str) -> str:
        return f"{REVERSE}{text}{PLAIN}" if text and self.paints() else text

    def clear_line(self) -> None:
        """Removes the progress line."""
        if self._moving:
            self.redraw("")

    @staticmethod
    def on_terminal() -> bool:
        """Whether stderr is a terminal."""
        return sys.stderr is not None and sys.stderr.isatty()

    def asks(self) -> bool:
        """Whether a user can answer questions."""
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()

    def confirm(self, question: str) -> bool:
        """Asks a yes/no question; anything but yes means no."""
        return self._typed(f"{visible(question)} [y/N] ").strip().lower() in ("y", "yes")

    def question(self) -> str | None:
        """One line that the user types after a prompt; None at the end of input."""
        line = self._typed("> ")
        return line.rstrip("\n") if line else None

    @staticmethod
    def _typed(prompt: str) -> str:
        """A line that the user types; after Ctrl-D or Ctrl-C, the next message begins on a new line."""
        print(prompt, end="", file=sys.stderr, flush=True)
        line = ""
        try:
            line = sys.stdin.readline()
        finally:
            if not line.endswith("\n"):
                print(file=sys.stderr)
        return line

    # Results, on stdout.

    def result(self, text: str) -> None:
        """One line of the result: a name, a path."""
        if not self.json:
            self.stdout.line(text)

    def answer(self, text: str) -> None:
        """More text of a model; on stderr if stdout has sound."""
        if self.json:
            return
        if not self.audio_on_stdout:
            self.stdout.text(text)
        elif sys.stderr is not None:
            print(visible(text.replace("\t", "    ")), end="", file=sys.stderr, flush=True)

    def table(self, rows: Sequence[Sequence[str]], *, head: Sequence[str] = ()) -> None:
        """Aligned columns on a terminal, tabs elsewhere."""
        if self.json or not rows:
            return
        if not self.stdout.is_terminal():
            for row in rows:
                self.stdout.line("\t".join(plain(cell) for cell in row))
            return
        for line in columns(rows, head, shutil.get_terminal_size().columns):
            self.stdout.line(line)

    def check(self, status: str, name: str, words: str, fix: str | None) -> None:
        """One line of `doctor`, and how to fix it."""
        if self.json:
            return
        mark = {"ok": "\033[32m", "skip": DIM, "warn": YELLOW, "fail": RED}[status]
        colour = self.stdout.is_terminal() and self.paints()
        shown = f"{mark}{status:<4}{PLAIN}" if colour else f"{status:<4}"
        width = shutil.get_terminal_size().columns if self.stdout.is_terminal() else 10_000
        for line in wrapped(f"{name}: {visible(words)}", width - 6):
            self.stdout.line(f"{shown}  {line}")
            shown = "    "
        for line in wrapped(step(fix) if fix else "", width - 8):
            self.stdout.line(f"        {line}")

    def record(self, **fields: Any) -> None:
        """One JSON object, if --json was asked for."""
        if self.json:
            self._json({"schema": SCHEMA, **fields})

    def error_record(self, error: OmniError) -> None:
        fields = {"status": "error", "code": error.code, "exit": error.exit_code, "message": error.message}
        where = {"where": dict(zip(("file", "line"), error.where, strict=True))} if error.where else {}
        self.record(**fields, cause=error.cause, hint=error.hint, **where)

    def _json(self, record: Mapping[str, Any]) -> None:
        text = json.dumps(record, ensure_ascii=False, allow_nan=False)
        if self.audio_on_stdout:
            self._write(text)
        else:
            # A lone surrogate (from an undecodable file name) becomes its \u escape, which is valid JSON.
            self.stdout.line(text.encode("utf-8", "backslashreplace").decode())

    def paints(self) -> bool:
        """Whether stderr is coloured."""
        if self.color != "auto":
            return self.color == "always"
        if environment.variable("NO_COLOR"):
            return False
        if environment.variable("FORCE_COLOR"):
            return True
        return self.animates()

    @staticmethod
    def animates() -> bool:
        """Whether stderr is a terminal that can move its cursor."""
        return sys.stderr is not None and sys.stderr.isatty() and environment.variable("TERM") != "dumb"

    def _painted(self, paint: str, text: str) -> str:
        return f"{paint}{text}{PLAIN}" if self.paints() else text

    def _say(self, title: str, message: str, cause: str | None, hint: str | None) -> None:
        lines = [f"{title} {visible(message)}"]
        if cause:
            lines.append(f"  cause: {visible(cause)}")
        if hint:
            lines.append(f"  {step(hint)}")
        self._write("\n".join(lines))

    def _write(self, text: str) -> None:
        if sys.stderr is None:
            return
        encoding = sys.stderr.encoding or "utf-8"
        try:
            with self._lock:
                self.clear_line()
                print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)
        except BrokenPipeError:
            raise
        except OSError:  # such as a full disk: the message is lost, the exit code is not
            pass


def step(hint: str) -> str:
    """A next step; a question stands for itself."""
    return visible(hint if hint.startswith("did you mean") else f"try: {hint}")


def visible(text: str) -> str:
    """The text with control characters escaped, so that no input can control the terminal."""
    return "".join(c if harmless(c) else escaped(c) for c in text)


def harmless(character: str) -> bool:
    """Whether a character is printable or a newline; format characters (bidi overrides) and surrogates are not."""
    return character == "\n" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def escaped(character: str) -> str:
    return character.encode("unicode_escape").decode() if not character.isascii() else f"\\x{ord(character):02x}"


def plain(cell: str) -> str:
    """A cell on one line without tabs."""
    return visible(" ".join(cell.split()))


def columns(rows: Sequence[Sequence[str]], head: Sequence[str], width: int) -> list[str]:
    """Aligned lines no wider than the terminal. The last column goes on in the next line; long cells before it are cut
    if there is no room for them, the longest first.
    """
    from rich.console import Console as Drawing
    from rich.table import Table
    from rich.text import Text

    cells = [[plain(cell) for cell in row] for row in ([list(head)] if head else []) + [list(row) for row in rows]]
    *widths, last = (max(map(cell_width, column)) for column in zip(*cells, strict=True))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for most in narrowed(widths, width - 2 * len(widths) - 2, min(last, width // 2)):
        table.add_column(width=most, no_wrap=True, overflow="ellipsis")
    table.add_column(overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    drawing = Drawing(width=max(width, SHORTEST_CELL), color_system=None, force_terminal=False)
    with drawing.capture() as drawn:
        drawing.print(table)
    return [line.rstrip() for line in drawn.get().splitlines()]


def narrowed(widths: list[int], width: int, last: int) -> list[int]:
    """Widths of the columns before the last one, which gets `last` columns. Names keep theirs, if at all possible."""
    for least, left in ((NAME_WIDTH, last), (SHORTEST_CELL, SHORTEST_CELL)):
        while sum(widths) > width - left and max(widths) > least:
            widths[widths.index(max(widths))] -= 1
    return widths


def wrapped(text: str, width: int) -> list[str]:
    """Wraps text at spaces."""
    import textwrap

    return textwrap.wrap(text, max(width, 20), subsequent_indent="  ", break_on_hyphens=False)


def cell_width(text: str) -> int:
    """Columns on a terminal: East Asian letters and emoji take two, combining marks none."""
    from rich.cells import cell_len

    return cell_len(text)


console = Console()
