"""omnitts help: pages from the Markdown files in omnitts_cli/help, and manual pages. omnitts completion: shells."""

import io
import re
import shutil
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console
from rich.markdown import CodeBlock, Heading, Markdown
from rich.segment import Segment
from rich.theme import Theme

from omnitts_cli.cli.commands import TOPICS
from omnitts_cli.cli.complete import SHELLS
from omnitts_cli.cli.deploy import FILES
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.setting import nearest
from omnitts_cli.settings.table import Messages
from omnitts_cli.terminal.console import console

PAGES = Path(__file__).parent.parent / "help"
PLAIN_WIDTH, WIDEST = 80, 100
TRAILING, BLANK_LINES = re.compile(r" +$", re.MULTILINE), re.compile(r"\n{3,}")
STYLES = {
    "markdown.h1": "bold",
    "markdown.h2": "bold",
    "markdown.code": "cyan",
    "markdown.table.border": "none",
    "markdown.table.header": "bold",
}


def help(words: list[str] | None, man: str | None = None) -> None:
    """A page, or the list of topics. What a command takes is shown by its --help."""
    if man is not None and words:
        raise UsageError(f"--man writes all pages, not only '{' '.join(words)}'", hint=f"omnitts help --man {man}")
    if man is not None:
        manual(man)
    elif not words:
        show_topics()
    elif len(words) == 1 and words[0] in TOPICS:
        console.stdout.line(page(words[0]))
    else:
        raise UsageError(f"no help for '{' '.join(words)}'", hint=suggestion(words[0]))


def manual(folder: str) -> None:
    """--man"""
    from omnitts_cli.cli import man

    pages = {topic: (summary(topic), page(topic, plain=True)) for topic in TOPICS}
    written = man.write(Path(folder), pages)
    console.result(folder)
    console.note(f"{len(written)} manual pages; to read one: man -M {folder} omnitts-say")


def show_topics() -> None:
    widest = max(map(len, TOPICS))
    console.stdout.line("Topics, each with `omnitts help TOPIC`:\n")
    for name in TOPICS:
        console.stdout.line(f"  {name:<{widest}}  {summary(name)}")
    console.stdout.line("\nThe options of a command: omnitts COMMAND --help")


def summary(topic: str) -> str:
    """What the first line of a page says after the topic."""
    with (PAGES / f"{topic}.md").open(encoding="utf-8") as file:
        return file.readline().partition(": ")[2].strip()


def suggestion(word: str) -> str:
    close = nearest(word.lower(), list(TOPICS))
    return f"omnitts help {close}" if close else "omnitts help"


def page(topic: str, *, plain: bool = False) -> str:
    """A page as text: as wide as the terminal and with colour there, 80 columns of plain text elsewhere."""
    terminal = not plain and console.stdout.is_terminal()
    colour = terminal and console.paints()
    width = min(shutil.get_terminal_size().columns, WIDEST) if terminal else PLAIN_WIDTH
    out = io.StringIO()
    drawn = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
        theme=Theme(STYLES),
    )
    drawn.print(Page((PAGES / f"{topic}.md").read_text("utf-8"), hyperlinks=False), crop=False)
    return BLANK_LINES.sub("\n\n", TRAILING.sub("", out.getvalue())).strip("\n")


class LeftHeading(Heading):
    """A heading at the left."""

    def __rich_console__(self, console: Any, options: Any) -> Any:
        self.text.justify = "left"
        yield self.text


class Example(CodeBlock):
    """An example, indented instead of boxed."""

    def __rich_console__(self, console: Any, options: Any) -> Any:
        style = console.get_style("cyan")
        for line in str(self.text).rstrip().split("\n"):
            yield Segment(f"    {line}", style)  # never wrapped: it must survive being copied
            yield Segment.line()


class Page(Markdown):
    """A page of help."""

    elements: ClassVar = {**Markdown.elements, "heading_open": LeftHeading, "fence": Example, "code_block": Example}


def completion(messages: Messages, shell: str) -> None:
    """Prints the completion script of a shell."""
    if shell not in SHELLS:
        raise UsageError(f"no completion for '{shell}'", hint="one of: " + ", ".join(SHELLS))
    script = (FILES / f"completion.{SHELLS[shell]}").read_text("utf-8").rstrip("\n")
    console.result(script)
    console.record(status="ok", shell=shell, script=script)
