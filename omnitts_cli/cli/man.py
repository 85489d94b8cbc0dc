"""omnitts help --man DIR: manual pages, made of the table of commands and the help pages."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from omnitts_cli.cli.commands import NAMES, TOPICS
from omnitts_cli.cli.declare import app_of
from omnitts_cli.errors import OutputError
from omnitts_cli.settings.environment import own_version
from omnitts_cli.terminal.usage import DOUBLE, sections_of

NAME = "omnitts"
SPECIAL = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}
"""Characters that stand for themselves in a terminal and for others in roff."""
ESCAPED = re.compile("|".join(map(re.escape, SPECIAL)))


def write(folder: Path, pages: Mapping[str, tuple[str, str]]) -> list[Path]:
    """Writes man1/omnitts.1, a page for each command, and man7/omnitts-TOPIC.7. `pages`: summary and text of topics."""
    root: Any = typer.main.get_command(app_of(NAMES))
    found = {Path("man1", f"{NAME}.1"): main_page(root)}
    for words, command, ctx in commands(root):
        found[Path("man1", f"{'-'.join(words)}.1")] = command_page(words, command, ctx)
    for topic in TOPICS:
        found[Path("man7", f"{NAME}-{topic}.7")] = topic_page(topic, *pages[topic])
    try:
        for place, lines in found.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text("\n".join(lines) + "\n", "utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(f"cannot write manual pages to {folder}: {reason}", hint="--man ~/.local/share/man") from None
    return [folder / place for place in found]


def commands(root: Any) -> Iterator[tuple[list[str], Any, Any]]:
    """The words, the command and its context of each command, with those below it."""
    above = typer.Context(root, info_name=NAME)
    for name in NAMES:
        command = root.commands[name]
        ctx = typer.Context(command, info_name=name, parent=above)
        yield [NAME, name], command, ctx
        for below, one in getattr(command, "commands", {}).items():
            yield [NAME, name, below], one, typer.Context(one, info_name=below, parent=ctx)


def main_page(root: Any) -> Iterator[str]:
    """The page of the program."""
    yield from heading(NAME, 1, "speech from the command line")
    yield from (".SH SYNOPSIS", f".B {NAME}", "COMMAND [OPTIONS] [TEXT]")
    yield from described(root.help)
    yield ".SH COMMANDS"
    for name in NAMES:
        yield from entry(f"{NAME} {name}", does(root.commands[name]))
    yield from (".SH SEE ALSO", text(", ".join([*(f"{NAME}-{name}(1)" for name in NAMES),
                                                *(f"{NAME}-{topic}(7)" for topic in TOPICS)])))  # fmt: skip


def command_page(words: list[str], command: Any, ctx: Any) -> Iterator[str]:
    """The page of a command: what its --help-all shows."""
    yield from heading("-".join(words), 1, does(command))
    usage = DOUBLE.sub(r"\1\2", command.get_usage(ctx)).removeprefix("Usage: ")
    yield from (".SH SYNOPSIS", text(" ".join(usage.split())))
    yield from described(command.help)
    below = getattr(command, "commands", None)
    if below:
        yield ".SH COMMANDS"
        for name, one in below.items():
            yield from entry(f"{' '.join(words)} {name}", does(one))
    else:
        shown, _ = sections_of(command, ctx, everything=True)
        for title, rows in shown.items():
            yield f".SH {text(title.upper())}"
            for name, meaning in rows:
                yield from entry(name, meaning)
    above = "-".join(words[:-1])
    yield from (".SH SEE ALSO", text(f"{above}(1)"))


def topic_page(topic: str, summary: str, page: str) -> Iterator[str]:
    """A help page as it is shown in a pipe."""
    yield from heading(f"{NAME}-{topic}", 7, summary)
    yield from (".SH DESCRIPTION", ".nf", *map(text, page.split("\n")), ".fi")
    yield from (".SH SEE ALSO", text(f"{NAME}(1)"))


def heading(name: str, section: int, about: str) -> Iterator[str]:
    """The title and what stands under NAME, which `apropos` reads."""
    version = own_version()
    yield f'.TH "{text(name.upper())}" {section} "" "{NAME} {text(version)}" "{NAME} manual"'
    yield from (".SH NAME", f"{text(name)} \\- {text(about)}")


def described(help_: str) -> Iterator[str]:
    """The text of a command; paragraphs that keep their lines are examples."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(help_ or ""))
    examples = [one for one in paragraphs if one.startswith("\b")]
    yield ".SH DESCRIPTION"
    for one in paragraphs:
        if one not in examples:
            yield from (".PP", text(" ".join(one.split())))
    for number, one in enumerate(examples):
        yield from ([] if number else [".SH EXAMPLES"])
        yield from (".PP", ".nf", *map(text, one.split("\n")[1:]), ".fi")


def entry(name: str, about: str) -> Iterable[str]:
    """A name and, indented, what it means."""
    return (".TP", f"\\fB{text(name)}\\fR", text(about or name))


def does(command: Any) -> str:
    """What a command does, without the full stop."""
    return str(command.short_help).rstrip(".")


def text(words: str) -> str:
    """Words as they are, for roff: nothing in them is a command."""
    found = ESCAPED.sub(lambda one: SPECIAL[one[0]], words)
    return f"\\&{found}" if found.startswith((".", "\\(aq")) else found
