"""Markdown: the words without the marks. Code blocks, HTML, link targets, front matter and footnotes are not spoken."""

import re
from collections.abc import Iterator
from typing import Any

from omnitts_cli.text.formats.block import Block

FRONT_MATTER = re.compile(
    r"\A\s*(?P<fence>---|\+\+\+)[ \t]*\n(?P<fields>.*?)^(?P=fence)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
LARGEST_FRONT_MATTER = 20_000
FIELD = re.compile(r"\s*$|\s*#|\s*[\w\"'.-]+\s*[:=]|\s+\S|\s*[-\]}]")
SIMPLE_FIELD = re.compile(r"^([\w-]{1,40})[ \t]*[:=][ \t]*(\S[^\n]*)$", re.MULTILINE)
LIST_FIELD = re.compile(r"^([\w-]{1,40})[ \t]*:[ \t]*\n((?:[ \t]*-[ \t]+\S[^\n]*(?:\n|\Z))+)", re.MULTILINE)
FOOTNOTE = re.compile(
    r"^ {0,3}\[\^[^\]\n]{1,80}\]:[^\n]*(?:\n(?:[ \t]+\S[^\n]*|[ \t]*(?=\n[ \t]{4}\S)))*", re.MULTILINE
)
FOOTNOTE_MARK = re.compile(r"\[\^[^\]\n]{1,80}\]")
MOST_COLUMNS = 100
WIDE_TABLE = re.compile(rf"^[ \t>]*+(?:\|?[ \t]*+:?-++:?[ \t]*+){{{MOST_COLUMNS},}}+", re.MULTILINE)
CHECK_BOX = re.compile(r"\A\[[ xX]\]\s+")


def markdown_blocks(text: str, *, lines: bool = False) -> Iterator[Block]:
    """One block for each heading, paragraph, list item or table row. `lines`: line ends inside a paragraph are kept."""
    from markdown_it import MarkdownIt

    row: list[str] | None = None  # the cells of the open table row
    level = 0  # of the open heading
    text = without_notes(text)
    rules = MarkdownIt("commonmark").enable("strikethrough")
    if not WIDE_TABLE.search(text):  # the parser fills every short row up to the width of the first
        rules.enable("table")
    for token in rules.parse(text):
        if token.type == "tr_open":
            row = []
        elif token.type == "tr_close":
            yield Block(", ".join(row or []))
            row = None
        elif token.type in ("heading_open", "heading_close"):
            level = int(token.tag[1]) if token.nesting == 1 else 0
        elif token.type == "inline":
            words = FOOTNOTE_MARK.sub("", CHECK_BOX.sub("", inline_words(token.children or [], lines)))
            if row is None:
                yield Block(words, level=level)
            else:
                row.append(words)


def without_notes(text: str) -> str:
    """The text without the fields that a page generator reads at its head, and without the footnotes."""
    found = front_matter(text)
    if found:
        text = text[found.end() :]
    return FOOTNOTE.sub("", text) if "[^" in text else text


def front_matter(text: str) -> re.Match[str] | None:
    """The fields at the head of a text that a page generator reads."""
    found = FRONT_MATTER.match(text[:LARGEST_FRONT_MATTER])
    return found if found and all(FIELD.match(line) for line in found["fields"].split("\n")) else None


MARKED = re.compile(r"(?<![\w=])==(?=[^\s=])(.+?)(?<=[^\s=])==(?![\w=])")
BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def front_fields(text: str) -> dict[str, str]:
    """The simple fields of the front matter, such as title and author. The items of a list are joined by commas."""
    found = front_matter(text)
    fields = found["fields"] if found else ""
    listed = {name.lower(): re.findall(r"-[ \t]+(\S[^\n]*)", items) for name, items in LIST_FIELD.findall(fields)}
    simple = {
        name.lower(): value.strip()[1:-1].split(",") if re.fullmatch(r"\[.*\]\s*", value) else [value]
        for name, value in SIMPLE_FIELD.findall(fields)
    }
    return {name: ", ".join(map(unquoted, values)) for name, values in (listed | simple).items()}


def unquoted(value: str) -> str:
    return value.strip().strip("\"'").strip()


def inline_words(tokens: list[Any], lines: bool = False) -> str:
    """Text, inline code and picture descriptions, in order; struck words are left out."""
    parts, struck = [], 0
    for token in tokens:
        if token.type in ("s_open", "s_close"):
            struck += token.nesting
        elif struck:
            continue
        elif token.type == "text":
            parts.append(MARKED.sub(r"\1", token.content))
        elif token.type == "code_inline":
            parts.append(token.content)
        elif token.type == "html_inline" and BREAK.fullmatch(token.content):
            parts.append("\n")
        elif token.type == "softbreak":
            parts.append("\n" if lines else " ")
        elif token.type == "hardbreak":
            parts.append("\n")
        elif token.type == "image":
            parts.append(inline_words(token.children or [], lines))
    return "".join(parts)
