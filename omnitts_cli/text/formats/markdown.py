"""Markdown: the words without the marks. Code blocks, HTML, link targets, front matter and footnotes are not spoken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from omnitts_cli.text.formats.block import Block

FRONT_MATTER = re.compile(
    r"\A\s*(?P<fence>---|\+\+\+)[ \t]*\n(?P<fields>.*?)^(?P=fence)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
LARGEST_FRONT_MATTER = 20_000
FIELD = re.compile(r"\s*$|\s*#|\s*[\w\"'.-]+\s*[:=]|\s+\S|\s*[-\]}]")
FOOTNOTE = re.compile(
    r"^ {0,3}\[\^[^\]\n]{1,80}\]:[^\n]*(?:\n(?:[ \t]+\S[^\n]*|[ \t]*(?=\n[ \t]{4}\S)))*", re.MULTILINE
)
FOOTNOTE_MARK = re.compile(r"\[\^[^\]\n]{1,80}\]")
CHECK_BOX = re.compile(r"\A\[[ xX]\]\s+")


def markdown_blocks(text: str) -> Iterator[Block]:
    """One block for each heading, paragraph, list item or table row."""
    from markdown_it import MarkdownIt

    row: list[str] | None = None  # the cells of the open table row
    for token in MarkdownIt("commonmark").enable("table").parse(without_notes(text)):
        if token.type == "tr_open":
            row = []
        elif token.type == "tr_close":
            yield Block(", ".join(row or []))
            row = None
        elif token.type == "inline":
            words = FOOTNOTE_MARK.sub("", CHECK_BOX.sub("", inline_words(token.children or [])))
            if row is None:
                yield Block(words)
            else:
                row.append(words)


def without_notes(text: str) -> str:
    """The text without the fields that a page generator reads at its head, and without the footnotes."""
    found = FRONT_MATTER.match(text[:LARGEST_FRONT_MATTER])
    if found and all(FIELD.match(line) for line in found["fields"].split("\n")):
        text = text[found.end() :]
    return FOOTNOTE.sub("", text) if "[^" in text else text


def inline_words(tokens: list[Any]) -> str:
    """Text, inline code and picture descriptions, in order."""
    parts = []
    for token in tokens:
        if token.type in ("text", "code_inline"):
            parts.append(token.content)
        elif token.type == "softbreak":
            parts.append(" ")
        elif token.type == "hardbreak":
            parts.append("\n")
        elif token.type == "image":
            parts.append(inline_words(token.children or []))
    return "".join(parts)
