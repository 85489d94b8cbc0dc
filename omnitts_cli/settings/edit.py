"""Editing a settings file: sets or removes one top-level key and keeps everything else as it was written.

Tables are not edited: they belong to one command or to a preset.
"""

from dataclasses import dataclass

from omnitts_cli.parse import ParseError, toml_tables


@dataclass(frozen=True)
class Statement:
    """A key and its value: lines `start` to `end` (exclusive), and the comment after them."""

    key: str
    start: int
    end: int
    comment: str


def with_key(text: str, name: str, value: str) -> str:
    """The text with `name = value`: in place of the key, or after the last top-level key."""
    lines = text.split("\n")
    found = statements(lines)
    for one in found:
        if one.key == name:
            lines[one.start : one.end] = [f"{name} = {value}{one.comment}"]
            return "\n".join(lines)
    lines.insert(found[-1].end if found else 0, f"{name} = {value}")
    return "\n".join(lines)


def without_key(text: str, name: str) -> str:
    """The text without the key, however many lines its value has."""
    lines = text.split("\n")
    for one in statements(lines):
        if one.key == name:
            del lines[one.start : one.end]
            return "\n".join(lines)
    return text


def statements(lines: list[str]) -> list[Statement]:
    """The top-level keys. A statement ends at the first line where it parses."""
    found, start = [], 0
    while start < len(lines) and not lines[start].lstrip().startswith("["):
        end = next((e for e in range(start + 1, len(lines) + 1) if parsed(lines[start:e]) is not None), len(lines))
        keys = parsed(lines[start:end])
        if keys:
            found.append(Statement(next(iter(keys)), start, end, comment_after(lines[start:end])))
        start = end
    return found


def comment_after(lines: list[str]) -> str:
    """The comment at the end of a statement, with the space before it."""
    whole, last = parsed(lines), lines[-1]
    for at, letter in enumerate(last):
        if letter == "#" and parsed([*lines[:-1], last[:at]]) == whole:
            return last[len(last[:at].rstrip()) :]
    return last[len(last.rstrip("\r")) :]


def parsed(lines: list[str]) -> dict[str, object] | None:
    """The parsed lines, or None if they end inside a value."""
    try:
        return toml_tables("\n".join(lines) + "\n")
    except ParseError:
        return None
