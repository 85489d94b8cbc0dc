"""omnitts help --man DIR: manual pages, made of the table of commands and the help pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from omnitts_cli.cli.commands import COMMANDS, PROGRAM, TOPICS, below
from omnitts_cli.cli.run import Command
from omnitts_cli.cli.usage import paragraphs, sections_of, summary, usage_of
from omnitts_cli.errors import OutputError
from omnitts_cli.settings.environment import own_version

NAME = "omnitts"
SPECIAL = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}
"""Characters that stand for themselves in a terminal and for others in roff."""
ESCAPED = re.compile("|".join(map(re.escape, SPECIAL)))


def write(folder: Path, pages: Mapping[str, tuple[str, str]]) -> list[Path]:
    """Writes man1/omnitts.1, a page for each command, and man7/omnitts-TOPIC.7. `pages`: summary and text of topics."""
    found = {Path("man1", f"{page_of(row)}.1"): command_page(row) for row in COMMANDS}
    found[Path("man1", f"{NAME}.1")] = main_page()
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


def page_of(row: Command) -> str:
    """The name of the page of a command."""
    return row.path.replace(" ", "-")


def main_page() -> Iterator[str]:
    """The page of the program."""
    yield from heading(NAME, 1, "speech from the command line")
    yield from (".SH SYNOPSIS", f".B {NAME}", "COMMAND [OPTIONS] [TEXT]")
    yield from described(PROGRAM)
    yield from listed(PROGRAM)
    yield from (".SH SEE ALSO", text(", ".join([*(f"{page_of(row)}(1)" for row in below(PROGRAM)),
                                                *(f"{NAME}-{topic}(7)" for topic in TOPICS)])))  # fmt: skip


def command_page(row: Command) -> Iterator[str]:
    """The page of a command: what its --help-all shows."""
    yield from heading(page_of(row), 1, does(row))
    yield from (".SH SYNOPSIS", text(usage_of(row)))
    yield from described(row)
    yield from listed(row)
    shown, _ = sections_of(row, everything=True)
    for title, lines in shown.items():
        yield f".SH {text(title.upper())}"
        for name, meaning in lines:
            yield from entry(name, meaning)
    yield from (".SH SEE ALSO", text(f"{page_of(row).rpartition('-')[0]}(1)"))


def listed(row: Command) -> Iterator[str]:
    """The commands below a row."""
    commands = below(row)
    yield from [".SH COMMANDS"] * bool(commands)
    for one in commands:
        yield from entry(one.path, does(one))


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


def described(row: Command) -> Iterator[str]:
    """The text of a command; paragraphs that keep their lines are examples."""
    examples = [one for one in paragraphs(row.help) if one.startswith("\b")]
    yield ".SH DESCRIPTION"
    for one in paragraphs(row.help):
        if one not in examples:
            yield from (".PP", text(" ".join(one.split())))
    for number, one in enumerate(examples):
        yield from ([] if number else [".SH EXAMPLES"])
        yield from (".PP", ".nf", *map(text, one.split("\n")[1:]), ".fi")


def entry(name: str, about: str) -> Iterable[str]:
    """A name and, indented, what it means."""
    return (".TP", f"\\fB{text(name)}\\fR", text(about or name))


def does(row: Command) -> str:
    """What a command does, without the full stop."""
    return summary(row.help).rstrip(".")


def text(words: str) -> str:
    """Words as they are, for roff: nothing in them is a command."""
    found = ESCAPED.sub(lambda one: SPECIAL[one[0]], words)
    return f"\\&{found}" if found.startswith((".", "\\(aq")) else found
