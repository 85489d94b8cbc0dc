"""The text of --help: options in groups with headings. Shows the most needed ones, or with --help-all every one."""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import get_args

from omnitts_cli.cli.commands import below, check
from omnitts_cli.cli.run import Argument, Command
from omnitts_cli.settings.setting import ALSO, SWITCH, Field, Group
from omnitts_cli.terminal.console import console

HEADINGS = {group: group.capitalize() for group in get_args(Group)}
"""The groups of settings, and what help calls them."""

ARGUMENTS, OWN, COMMANDS = "Arguments", "Options", "Commands"
WIDEST = 100
WIDEST_NAME = 28  # a longer one gets a line of its own

Line = tuple[str, str]


def show(row: Command, *, everything: bool = False) -> None:
    """Prints the help of a row. A row that cannot run is an error."""
    check([row])
    console.stdout.claim()
    console.stdout.line(help_text(row, everything=everything))


def help_text(row: Command, *, everything: bool = False) -> str:
    """Usage, description, arguments, options and commands, as wide as the terminal."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    shown, hidden = sections_of(row, everything=everything)
    last = HEADINGS["messages"] if HEADINGS["messages"] in shown else OWN
    more = f" --help-all: {hidden} more options." if hidden else ""
    shown.setdefault(last, []).append(("-h, --help", f"Show this message.{more}"))
    names = [len(name) for lines in shown.values() for name, _ in lines]
    column = max(length for length in names if length <= WIDEST_NAME) + 4
    usage = f"Usage: {usage_of(row)}"
    text = textwrap.wrap(usage, width, subsequent_indent=" " * len(f"Usage: {row.path} "), break_on_hyphens=False)
    text += ["", *description(row.help, width)]
    for heading, lines in shown.items():
        text += ["", f"{heading}:", *table(lines, column, width)]
    if commands := [(one.words[-1], summary(one.help)) for one in below(row)]:
        text += ["", f"{COMMANDS}:", *table(commands, max(len(name) for name, _ in commands) + 4, width)]
    return "\n".join(text)


def usage_of(row: Command) -> str:
    """How a command is typed."""
    takes = [in_usage(one) for one in row.own if isinstance(one, Argument)]
    return " ".join([row.path, "[OPTIONS]", *(takes if row.body else ["COMMAND [ARGS]..."])])


def in_usage(one: Argument) -> str:
    """An argument as usage shows it: in brackets if it may be left out."""
    name = one.metavar if one.required or one.metavar.startswith("[") else f"[{one.metavar}]"
    return name + "..." * one.many


def sections_of(row: Command, *, everything: bool) -> tuple[dict[str, list[Line]], int]:
    """Arguments and options under their headings, and how many options are left out."""
    *settings, messages = HEADINGS.values()
    sections: dict[str, list[Line]] = {heading: [] for heading in (ARGUMENTS, *settings, OWN, messages)}
    for own in row.own:
        if isinstance(own, Argument):
            more = "  [required]" if own.required else f"  [default: {own.default}]" if own.default else ""
            sections[ARGUMENTS].append((own.metavar, own.help + more))
        else:
            sections[OWN].append((spelled(own.flags, own.metavar), own.help))
    seen = [field for field in row.settings if field.name not in row.rules.hidden]
    shown = sorted((field for field in seen if everything or field.setting.main), key=lambda one: not one.setting.main)
    for field in shown:
        meaning, takes = meaning_of(row, field)
        sections[HEADINGS[field.setting.group]].append((spelled(field.setting.flags, takes), meaning))
    return {heading: lines for heading, lines in sections.items() if lines}, len(seen) - len(shown)


def spelled(flags: str, takes: str) -> str:
    """The spellings of an option, short ones first, and its placeholder."""
    shown = sorted((one for one in flags.split() if one[2:] not in ALSO), key=lambda one: one.startswith("--"))
    return f"{', '.join(shown).replace('/', ' / ')} {takes}".rstrip()


def meaning_of(row: Command, field: Field) -> Line:
    """The help of a setting with its default, and its placeholder."""
    setting, default = field.setting, field.default
    if field.name in row.rules.words:
        return row.rules.words[field.name]
    has_default = not (default is None or isinstance(default, bool) or default in ("", ()))
    as_typed = f"{default:g}" if isinstance(default, float) else f"{default}"
    shown = setting.shown or (as_typed if has_default else "")
    return f"{setting.help} [{shown}]" if shown else setting.help, "" if setting.kind is SWITCH else setting.metavar


def paragraphs(help_: str) -> list[str]:
    """The text of a command. A paragraph that begins with \\b keeps its lines."""
    return re.split(r"\n\s*\n", inspect.cleandoc(help_))


def summary(help_: str) -> str:
    """What a command does, in its first sentence."""
    first, stop, _ = " ".join(paragraphs(help_)[0].split()).partition(". ")
    return first + stop.rstrip()


def description(help_: str, width: int) -> Iterator[str]:
    """The command's own text."""
    for number, paragraph in enumerate(paragraphs(help_)):
        if number:
            yield ""
        if paragraph.startswith("\b"):
            yield from (f"  {line}" for line in paragraph.split("\n")[1:])
        else:
            yield from textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ")


def table(lines: Iterable[Line], column: int, width: int) -> Iterator[str]:
    """Names at the left; what they mean from `column` on, wrapped."""
    for name, words in lines:
        start = f"  {name}"
        if len(start) > column - 2:
            yield start
            start = ""
        wrapped = textwrap.wrap(words, max(width - column, 20), break_on_hyphens=False) or [""]
        yield f"{start:<{column}}{wrapped[0]}".rstrip()
        yield from (" " * column + line for line in wrapped[1:])
