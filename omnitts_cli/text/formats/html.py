"""The words of an HTML page or an EPUB chapter. Forgiving: nothing in a page can be wrong enough to fail."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

from omnitts_cli.text.formats.block import Block

BLOCKS = {
    "p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "ul", "ol", "dl", "dt", "dd", "blockquote", "section",
    "article", "header", "footer", "table", "tr", "figure", "figcaption", "hr", "body", "aside", "main", "pre",
}  # fmt: skip
SKIPPED = {"script", "style", "head", "nav", "template", "svg", "math", "rt", "rp"}


def html_blocks(page: str) -> Iterator[Block]:
    """One block for each paragraph-like element."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    reader.paragraph()
    yield from reader.blocks


class Reader(HTMLParser):
    """Collects words; block elements end a paragraph."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self._words: list[str] = []
        self._skipped: list[str] = []

    def paragraph(self) -> None:
        lines = [" ".join(line.split()) for line in "".join(self._words).split("\v")]
        self._words = []
        text = "\n".join(line for line in lines if line)
        if text:
            self.blocks.append(Block(text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SKIPPED:
            self._skipped.append(tag)
        elif tag in BLOCKS:
            self.paragraph()
        elif tag == "br":
            self._words.append("\v")
        elif tag in ("td", "th"):
            self._words.append(", " if self._words else "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in SKIPPED:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._skipped and tag == self._skipped[-1]:
            self._skipped.pop()
        elif tag in BLOCKS:
            self.paragraph()

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._words.append(data)
