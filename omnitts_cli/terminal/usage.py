"""The text of --help: options in groups with headings. Shows the most needed ones, or with --help-all every one."""

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from omnitts_cli.settings.setting import RARE, Group
from omnitts_cli.settings.table import former_options

HEADINGS = {group: group.capitalize() for group in get_args(Group)}
"""The groups of settings, and what help calls them."""

OWN = "Options"  # of a command's own options
DOUBLE = re.compile(r"\{([^{}]+)\}|\[(\[[^\[\]]+\])\]")  # Typer's own brackets around a placeholder
PYTHON_TYPE = re.compile(r" <(?:str|list\[str\])>")
WIDEST = 100
WIDEST_NAME = 28  # a longer one gets a line of its own

Row = tuple[str, str]


def help_text(command: Any, ctx: Any, *, everything: bool) -> str:
    """Usage, description, arguments and options, as wide as the terminal."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    shown, hidden = sections_of(command, ctx, everything=everything)
    last = HEADINGS["messages"] if HEADINGS["messages"] in shown else OWN
    more = f" --help-all: {hidden} more options." if hidden else ""
    shown.setdefault(last, []).append(("-h, --help", f"Show this message.{more}"))
    names = [len(name) for rows in shown.values() for name, _ in rows]
    column = max(length for length in names if length <= WIDEST_NAME) + 4
    lines = [DOUBLE.sub(r"\1\2", command.get_usage(ctx)), "", *description(command, width)]
    for heading, rows in shown.items():
        lines += ["", f"{heading}:", *table(rows, column, width)]
    return "\n".join(lines)


def sections_of(command: Any, ctx: Any, *, everything: bool) -> tuple[dict[str, list[Row]], int]:
    """Arguments and options under their headings, and how many options are left out."""
    sections: dict[str, list[Row]] = {"Arguments": []}
    *settings, messages = HEADINGS.values()
    sections |= {heading: [] for heading in (*settings, OWN, messages)}
    hidden = 0
    for param in sorted(command.get_params(ctx), key=is_rare):
        group = (getattr(param, "rich_help_panel", None) or "").removesuffix(RARE)
        if is_rare(param) and not everything:
            hidden += bool(group)
            continue
        row = param.get_help_record(ctx)
        if row is not None and not {"--help", "--help-all"} & {*param.opts}:
            heading = "Arguments" if param.param_type_name == "argument" else HEADINGS.get(group, OWN)
            sections[heading].append((as_shown(row[0]), row[1]))
    return {heading: rows for heading, rows in sections.items() if rows}, hidden


def as_shown(names: str) -> str:
    """The spellings of an option and its placeholder, without Python types and former spellings."""
    former = re.compile(rf", ({'|'.join(former_options())})(?![\w-])")
    return former.sub("", PYTHON_TYPE.sub("", names))


def is_rare(param: Any) -> bool:
    return (getattr(param, "rich_help_panel", None) or "").endswith(RARE)


def description(command: Any, width: int) -> Iterator[str]:
    """The command's own text. A paragraph that begins with \\b keeps its lines."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))):
        if number:
            yield ""
        if paragraph.startswith("\b"):
            yield from (f"  {line}" for line in paragraph.split("\n")[1:])
        else:
            yield from textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ")


def table(rows: Iterable[Row], column: int, width: int) -> Iterator[str]:
    """Names at the left; what they mean from `column` on, wrapped."""
    for name, words in rows:
        start = f"  {name}"
        if len(start) > column - 2:
            yield start
            start = ""
        lines = textwrap.wrap(words, max(width - column, 20), break_on_hyphens=False) or [""]
        yield f"{start:<{column}}{lines[0]}".rstrip()
        yield from (" " * column + line for line in lines[1:])
