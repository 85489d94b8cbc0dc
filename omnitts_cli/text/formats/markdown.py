"""Markdown: the words without the marks. Code blocks and HTML are not spoken, link targets neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnitts_cli.text.formats.block import Block


def markdown_blocks(text: str) -> Iterator[Block]:
    """One block for each heading, paragraph, list item or table row."""
    from markdown_it import MarkdownIt

    row: list[str] | None = None  # the cells of the open table row
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "tr_open":
            row = []
        elif token.type == "tr_close":
            yield Block(", ".join(row or []))
            row = None
        elif token.type == "inline":
            words = inline_words(token.children or [])
            if row is None:
                yield Block(words)
            else:
                row.append(words)


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
