"""Chapters of documents without a table of contents: by their headings, or by lines such as "Chapter 7"."""

import re
from collections.abc import Iterable

from omnitts_cli.text.formats.block import Block, Section

LEVELS = range(1, 7)
NUMBER = r"(?:\d{1,4}|[ivxlcdm]{1,10}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
CHAPTER_LINE = re.compile(
    rf"(?:chapter|book|part|act|letter|canto|stave|kapitel|chapitre|capítulo|capitolo)[ \t]+{NUMBER}\b[^\n]{{0,100}}"
    r"|(?:prologue|epilogue|preface|introduction|foreword|afterword)[.:]?",
    re.IGNORECASE,
)
LONGEST_TITLE = 200


def sections_of(blocks: Iterable[Block], level: int | None = None) -> tuple[str, list[Section]]:
    """The title of a document, if a single heading above all chapters says it, and the chapters.

    `level`: a chapter begins at headings of this level and above; by default, at the first level that has more than
    one. What is before the first chapter belongs to it if it is only a title; else it is a chapter of its own.
    """
    known = list(blocks)
    counts = {one: sum(block.level == one for block in known) for one in LEVELS}
    used = [one for one in LEVELS if counts[one]]
    if level is None:
        level = next((one for one in used if counts[one] > 1), used[-1] if used else 0)
    title = next((block.text for block in known if block.level), "") if used and counts[used[0]] == 1 else ""
    sections = [Section("")]
    for block in known:
        if 0 < block.level <= level:
            above = sections[-1]
            if above.blocks and all(one.level for one in above.blocks):  # headings in a row are one beginning
                above.title = title_of(block.text)
            else:
                sections.append(Section(title_of(block.text)))
        sections[-1].blocks.append(block)
    if sections[0].blocks:
        sections[0].title = sections[0].title or "Front matter"
    return title_of(title), [section for section in sections if section.blocks]


def title_of(text: str) -> str:
    return " ".join(text.split())[:LONGEST_TITLE]


def text_blocks(text: str) -> list[Block]:
    """The paragraphs of plain text. A line of its own such as "CHAPTER IV. The end" is a heading."""
    blocks = []
    for paragraph in re.split(r"\n[ \t]*\n\s*", text.strip("\n")):
        if paragraph.strip():
            first, _, rest = paragraph.strip().partition("\n")
            heading = CHAPTER_LINE.fullmatch(first.strip()) and len(rest) <= LONGEST_TITLE and rest.count("\n") < 2
            blocks.append(Block(paragraph, level=1 if heading else 0))
    return blocks
