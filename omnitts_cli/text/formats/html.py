"""The words of an HTML page or an EPUB chapter. Forgiving: nothing in a page can be wrong enough to fail.

Scripts, menus, form controls, code blocks, footnotes and what a page hides are not spoken.
"""

import re
from collections.abc import Collection, Iterator
from html.parser import HTMLParser

from omnitts_cli.text.formats.block import Block

BLOCKS = {
    "p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "ul", "ol", "dl", "dt", "dd", "blockquote", "section",
    "article", "header", "footer", "table", "tr", "figure", "figcaption", "hr", "body", "aside", "main", "pre",
}  # fmt: skip
SKIPPED = {
    "script", "noscript", "style", "head", "nav", "template", "svg", "math", "rt", "rp", "pre", "select", "datalist",
    "textarea", "button", "del", "s", "strike",
}  # fmt: skip
HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
WHOLE = {"html", "body"}  # often hidden only until a script runs
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
NOTES = {
    "noteref", "footnote", "footnotes", "endnote", "endnotes", "rearnote", "rearnotes", "backlink", "doc-noteref",
    "doc-footnote", "doc-endnote", "doc-endnotes", "doc-backlink", "pagebreak", "doc-pagebreak",
}  # fmt: skip
NOTE_MARK = re.compile(r"\s*[\[(]?(?:\d{1,3}|[*†‡§a-z])[\])]?\s*")
BACK_LINK = re.compile(r"[↩↑⤴](?:\ufe0e|\ufe0f)?")
BASE = re.compile(r"(?:\d|(?<![A-Za-z])[A-Za-z]|\))\Z")  # what a raised number is a power of


def html_blocks(page: str, anchors: Collection[str] = ()) -> Iterator[Block]:
    """One block for each paragraph-like element, and one for each element whose id is in `anchors`."""
    reader = HtmlReader(anchors)
    reader.feed(without_open_ends(page))
    reader.close()
    reader.paragraph()
    yield from reader.blocks


def without_open_ends(page: str) -> str:
    """The page with each `<` as a character that cannot begin a tag or comment, as its end is missing.

    HTMLParser looks for that end again from every one of them, which takes time in the square of the length.
    """
    last = page.rfind("-->") + 1
    page = page[:last] + page[last:].replace("<!--", "&lt;!--")
    last = page.rfind(">") + 1
    return page[:last] + page[last:].replace("<", "&lt;")


class HtmlReader(HTMLParser):
    """Collects words; block elements end a paragraph."""

    def __init__(self, anchors: Collection[str] = ()) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self._anchors = anchors
        self._level = 0  # of the open heading
        self._words: list[str] = []
        self._skipped: list[str] = []
        self._raised: int | None = None  # where in _words the open <sup> begins

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """`<![CDATA[...]]>` and the like are not spoken; HTMLParser fails where it finds no name in them."""
        mark = "]]>" if self.rawdata.startswith("<![CDATA[", i) else ">"
        end = self.rawdata.find(mark, i)
        return end + len(mark) if end >= 0 else -1

    def paragraph(self) -> None:
        lines = [" ".join(line.split()).replace(" , ", ", ") for line in "".join(self._words).split("\v")]
        self._words, self._raised = [], None
        text = "\n".join(line for line in lines if line)
        if text:
            self.blocks.append(Block(text, level=self._level))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._mark(attrs)
        if self._skipped == ["p"] and tag in BLOCKS:
            self._skipped.clear()  # the next block ends a paragraph, with or without </p>
        if self._skipped:
            if tag == self._skipped[-1]:
                self._skipped.append(tag)
        elif tag in SKIPPED or (tag not in VOID and (is_note(attrs) or (tag not in WHOLE and is_hidden(attrs)))):
            self._skipped.append(tag)
            if tag in BLOCKS:
                self.paragraph()
        elif tag in BLOCKS:
            self.paragraph()
            self._level = int(tag[1]) if tag in HEADINGS else self._level
        elif tag in ("br", "img"):
            self._words.append("\v" if tag == "br" else description(attrs))
        elif tag in ("td", "th"):
            self._words.append(", " if any(word.strip() for word in self._words) else "")
        elif tag == "sup":
            self._raised = len(self._words)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in SKIPPED and not is_note(attrs) and not is_hidden(attrs):
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._skipped and tag == self._skipped[-1]:
            self._skipped.pop()
        elif self._skipped:
            return
        elif tag in BLOCKS:
            self.paragraph()
            self._level = 0 if tag in HEADINGS else self._level
        elif tag == "sup" and self._raised is not None:
            self._lower()

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._words.append(BACK_LINK.sub("", data))

    def _mark(self, attrs: list[tuple[str, str | None]]) -> None:
        """The place of an element that a table of contents refers to."""
        anchor = next((value for name, value in attrs if name in ("id", "name") and value in self._anchors), None)
        if anchor:
            self.paragraph()
            self.blocks.append(Block(anchor=anchor))

    def _lower(self) -> None:
        """What was raised: a power after a number or a letter, else the mark of a footnote, which is not spoken."""
        assert self._raised is not None
        raised = "".join(self._words[self._raised :])
        before = ""
        for n in range(self._raised - 1, -1, -1):
            before = self._words[n] + before
            if len(before) > 1:  # as much as BASE looks at
                break
        if NOTE_MARK.fullmatch(raised):
            power = BASE.search(before) is not None and raised.strip().isalnum()
            self._words[self._raised :] = [f"^{raised.strip()}"] if power else []
        self._raised = None


def description(attrs: list[tuple[str, str | None]]) -> str:
    """The words for a picture."""
    return "" if is_note(attrs) or is_hidden(attrs) else dict(attrs).get("alt") or ""


def is_note(attrs: list[tuple[str, str | None]]) -> bool:
    """Whether an element is a footnote, the link to one, or the link back."""
    return any(name in ("epub:type", "role") and NOTES & set((value or "").lower().split()) for name, value in attrs)


def is_hidden(attrs: list[tuple[str, str | None]]) -> bool:
    """Whether the element is hidden, or hidden from screen readers."""
    given = dict(attrs)
    return (
        "hidden" in given
        or (given.get("aria-hidden") or "").strip().lower() == "true"
        or HIDDEN.search(given.get("style") or "") is not None
    )
