"""The table of contents of an EPUB book: the navigation page of EPUB 3, or the NCX file of EPUB 2.

Read with an HTML parser: it knows no entities of untrusted files, and many of these files are not well-formed.
"""

from dataclasses import dataclass
from html.parser import HTMLParser

LONGEST_TITLE = 200
MOST_ENTRIES = 20_000


@dataclass(frozen=True)
class ContentsEntry:
    """A line of the table of contents. `level` 1 is the outermost; `link` is relative to the table's own file."""

    title: str
    link: str
    level: int


def contents(page: str) -> list[ContentsEntry]:
    """The entries in order, of either kind of table; an entry without a link is left out."""
    reader = ContentsReader()
    reader.feed(page)
    reader.close()
    return [entry for entry in reader.entries if entry.link and entry.title]


class ContentsReader(HTMLParser):
    """Collects entries. In a navigation page they are the links of the list of contents, and lists nest; in an NCX file
    they are points, and points nest.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.entries: list[ContentsEntry] = []
        self._depth = 0
        self._inside = ""  # "nav", "ncx", or "" outside of the contents
        self._words: list[str] | None = None  # of the open title
        self._link = ""
        self._open: list[int] = []  # entries of the open points of an NCX file

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "nav":
            kinds = f"{values.get('epub:type', '')} {values.get('role', '')}".split()
            self._inside = "nav" if "toc" in kinds or "doc-toc" in kinds else ""
            self._depth = 0
        elif tag == "navmap":
            self._inside = "ncx"
        elif self._inside == "nav":
            self._in_page(tag, values)
        elif self._inside == "ncx":
            self._in_points(tag, values)

    def _in_page(self, tag: str, values: dict[str, str]) -> None:
        self._depth += tag == "ol"
        if tag == "a" and len(self.entries) < MOST_ENTRIES:
            self._link, self._words = values.get("href", ""), []

    def _in_points(self, tag: str, values: dict[str, str]) -> None:
        if tag == "navpoint" and len(self.entries) < MOST_ENTRIES:
            self._open.append(len(self.entries))
            self.entries.append(ContentsEntry("", "", len(self._open)))
        elif tag == "text" and self._open:
            self._words = []
        elif tag == "content" and self._open:
            at = self._open[-1]
            self.entries[at] = ContentsEntry(self.entries[at].title, values.get("src", ""), self.entries[at].level)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("nav", "navmap"):
            self._inside = ""
        elif tag == "ol" and self._inside == "nav":
            self._depth -= 1
        elif tag == "a" and self._words is not None and self._inside == "nav":
            self.entries.append(ContentsEntry(self._title(), self._link, max(self._depth, 1)))
        elif tag == "text" and self._words is not None and self._open:
            at = self._open[-1]
            self.entries[at] = ContentsEntry(self._title(), self.entries[at].link, self.entries[at].level)
        elif tag == "navpoint" and self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._words is not None:
            self._words.append(data)

    def _title(self) -> str:
        words, self._words = " ".join("".join(self._words or []).split()), None
        return words[:LONGEST_TITLE]
