"""Books: chapters, titles and covers of EPUB 2 and 3, Markdown, HTML and plain text; broken books; --chapters."""

import io
import os
import zipfile
from pathlib import Path

import pytest
from books import PNG, epub, page

from omnitts_cli.books.reader import chosen, read_book
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.text.formats.block import Document, Section

TWO = [("One", page("First words.", "One")), ("Two", page("Second words.", "Two"))]
NCX = """<?xml version="1.0"?>
<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">
<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>{}</navMap></ncx>"""
POINT = '<navPoint id="p"><navLabel><text>{}</text></navLabel><content src="{}"/>{}</navPoint>'


def read(data: bytes | str, name: str = "b.epub", level: int | None = None, *, lines: bool = False) -> Document:
    given = data.encode() if isinstance(data, str) else data
    return read_book([(name, given)], "auto", None, level, lines=lines)


def titles(found: Document) -> list[str]:
    return [section.title for section in found.sections]


def texts(found: Document) -> list[list[str]]:
    return [[block.text for block in section.blocks] for section in found.sections]


# ---- EPUB


def test_epub_2_and_epub_3() -> None:
    found = read(epub(TWO))
    assert (found.title, found.author, found.language) == ("A Book", "Jane Roe", "en")
    assert titles(found) == ["One", "Two"] and texts(found) == [["One", "First words."], ["Two", "Second words."]]
    assert found.notices == [] and found.cover is None
    points = POINT.format("Chapter &amp; One", "text/c1.xhtml", "") + POINT.format("Two", "text/c2.xhtml#x", "")
    assert titles(read(epub(TWO, nav=None, ncx=NCX.format(points), version="2.0"))) == ["Chapter & One", "Two"]


def test_a_chapter_of_several_files_and_a_file_of_several_chapters() -> None:
    several = "<body><p>Before.</p><h2 id='a'>A</h2><p>In a.</p><p><a name='b'></a>In b.</p></body>"
    pages = [("", page("one.")), ("", page("still one.")), ("", several)]
    links = "".join(
        f'<li><a href="text/{link}">{name}</a></li>'
        for name, link in [("One", "c1.xhtml"), ("A", "c3.xhtml#a"), ("B", "c3.xhtml#b")]
    )
    found = read(epub(pages, nav=f'<nav epub:type="toc"><ol>{links}</ol></nav>'))
    assert titles(found) == ["One", "A", "B"]
    assert texts(found) == [["one.", "still one.", "Before."], ["A", "In a."], ["In b."]]


def test_entries_that_repeat_make_the_chapters_and_front_matter_is_one() -> None:
    inner = "".join(f'<li><a href="text/c{n}.xhtml">{name}</a></li>' for n, name in [(1, "One"), (2, "Two")])
    nav = f'<nav epub:type="toc"><ol><li><a href="text/c1.xhtml">The Book</a><ol>{inner}</ol></li></ol></nav>'
    assert titles(read(epub(TWO, nav=nav))) == ["The Book", "Two"]
    assert titles(read(epub(TWO, nav=nav), level=1)) == ["The Book"]
    pages = [("", page("By someone.")), *TWO]
    links = '<li><a href="text/c2.xhtml">One</a></li><li><a href="text/c3.xhtml">Two</a></li>'
    nav = f'<nav epub:type="toc"><ol>{links}</ol></nav>'
    assert titles(read(epub(pages, nav=nav))) == ["Front matter", "One", "Two"]


def test_without_navigation_headings_make_the_chapters() -> None:
    pages = [*TWO, ("", page("goes on"))]
    found = read(epub(pages, nav=None))
    assert titles(found) == ["One", "Two"] and texts(found)[1] == ["Two", "Second words.", "goes on"]
    assert titles(read(epub([("", page("a.")), ("", page("b."))], nav=None))) == ["Chapter 1", "Chapter 2"]
    items = '<item id="ncx" href="gone.ncx" media-type="application/x-dtbncx+xml"/>'
    found = read(epub(TWO, nav=None, items=items))
    assert titles(found) == ["One", "Two"] and "lacks 'OEBPS/gone.ncx'" in found.notices[0]


@pytest.mark.parametrize("nav", [
    '<nav epub:type="toc"><ol><li><a href="../../../../etc/passwd">x</a></li></ol></nav>',
    "<html>not a table of contents",
    '<nav epub:type="toc"><ol><li><a href="text/nowhere.xhtml">x</a></li></ol></nav>',
])  # fmt: skip
def test_a_table_of_contents_that_cannot_be_used(nav: str) -> None:
    assert titles(read(epub(TWO, nav=nav))) == ["One", "Two"]


@pytest.mark.parametrize(("metadata", "items"), [
    ("", '<item id="i" href="c.png" media-type="image/png" properties="cover-image"/>'),
    ('<meta name="cover" content="i"/>', '<item id="i" href="c.png" media-type="image/png"/>'),
    ("", '<item id="cover" href="c.png" media-type="image/png"/>'),
])  # fmt: skip
def test_covers(metadata: str, items: str) -> None:
    assert read(epub(TWO, metadata=metadata, items=items, OEBPS__c_dot_png=PNG)).cover == PNG


@pytest.mark.parametrize(("data", "what"), [(b"GIF89a", "neither JPEG nor PNG"), (None, "lacks")])
def test_an_unusable_cover_is_left_out_with_a_notice(data: bytes | None, what: str) -> None:
    items = '<item id="i" href="c.png" media-type="image/png" properties="cover-image"/>'
    found = read(epub(TWO, items=items, **({"OEBPS__c_dot_png": data} if data else {})))
    assert found.cover is None and what in found.notices[0] and len(found.sections) == 2


def test_a_page_without_its_footnotes_and_one_in_an_older_encoding() -> None:
    words = 'A word.<a epub:type="noteref" href="#n">1</a> More<sup>2</sup>.<aside epub:type="footnote">no</aside>'
    assert texts(read(epub([("x", page(words))]))) == [["A word. More."]]
    old = '<?xml version="1.0" encoding="windows-1252"?>' + page("caf\u00e9 \u201cnoir\u201d")
    assert texts(read(epub([("x", old.encode("cp1252"))]))) == [["café “noir”"]]  # type: ignore[list-item]


def test_external_entities_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    evil = f'<!DOCTYPE html [<!ENTITY x SYSTEM "file://{secret}">]>' + page("Words &x; here.")
    assert "s3cret" not in str(texts(read(epub([("x", evil)]))))
    data = epub(TWO)
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        for info in old.infolist():
            text = old.read(info)
            new.writestr(info, evil.encode() + text if info.filename.endswith(".opf") else text)
    with pytest.raises(InputError, match="declares a document type or entities"):
        read(file.getvalue())


def broken(kind: str) -> bytes:
    if kind == "bomb":
        return epub([("x", page("a" * (15 * 2**20)))])
    if kind == "missing":
        return epub(TWO, items='<item id="g" href="gone.xhtml" media-type="text/html"/>', spine='<itemref idref="g"/>')
    if kind == "outside":
        return epub(TWO, items='<item id="g" href="../../x" media-type="text/html"/>', spine='<itemref idref="g"/>')
    if kind == "locked":
        locked = '<encryption><CipherReference URI="OEBPS/text/c1.xhtml"/></encryption>'
        return epub(TWO, **{"META-INF__encryption_dot_xml": locked})
    if kind == "empty":
        return epub([("x", "<body><img src='a.png'/></body>")])
    return {"spine": epub(TWO, spine=""), "text": b"just text", "cut": epub(TWO)[:-40]}[kind]


@pytest.mark.parametrize(("kind", "message"), [
    ("bomb", "unpacks"), ("missing", "lacks 'OEBPS/gone.xhtml'"), ("outside", "outside the book"),
    ("locked", "encrypted"), ("empty", "nothing to speak"), ("spine", "no reading order"),
    ("text", "not an EPUB file"), ("cut", "not an EPUB file"),
])  # fmt: skip
def test_broken_books_write_nothing(kind: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        read(broken(kind))
    assert os.listdir(tmp_path) == []


# ---- other formats


def test_markdown_with_front_matter_and_one_title() -> None:
    fields = "---\ntitle: 'The *Book*'\nauthor: Ann\nlang: en\n---\n"
    text = f"{fields}# Title\n\n## A\n\nwords\n\n### part\n\nmore\n\n## B\n\nend"
    found = read(text, "b.md")
    assert (found.title, found.author, found.language) == ("The *Book*", "Ann", "en")
    assert titles(found) == ["A", "B"] and texts(found)[0] == ["Title", "A", "words", "part", "more"]
    assert titles(read(text, "b.md", level=3)) == ["A", "part", "B"]
    found = read("# The Book\n\nBy me.\n\n## A\n\nx\n\n## B\n\ny", "b.md")  # without front matter
    assert found.title == "The Book" and titles(found) == ["The Book", "A", "B"]


def test_several_files_are_one_book_and_lines_name_chapters() -> None:
    sources = [("in/one.md", b"no heading at all"), ("two.txt", b"plain words"), ("x.html", b"<h1>H</h1><p>w</p>")]
    assert titles(read_book(sources, "auto", None, None, lines=False)) == ["one", "two", "H"]
    text = "By someone.\n\nCHAPTER I. The start\n\nIt was\na day.\n\nChapter 2\nThe end\n\nThe chapter is over.\n"
    found = read(text, "b.txt")
    assert titles(found) == ["Front matter", "CHAPTER I. The start", "Chapter 2 The end"]
    assert texts(found)[1] == ["CHAPTER I. The start", "It was\na day."]


# ---- --chapters


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [(None, [1, 2, 3, 4, 5]), ("2", [2]), ("1-2,5", [1, 2, 5]), ("4-", [4, 5]), ("-2", [1, 2]), ("5, 1", [1, 5])],
)
def test_chapters_are_chosen(wanted: str | None, numbers: list[int]) -> None:
    sections = [Section(f"{n}") for n in range(1, 6)]
    assert [number for number, _ in chosen(sections, wanted)] == numbers
    assert [section.title for _, section in chosen(sections, wanted)] == [str(n) for n in numbers]


@pytest.mark.parametrize("wanted", ["0", "6", "3-2", "a", "", "1,,2", "1-9", "-"])
def test_chapters_that_are_not_there(wanted: str) -> None:
    with pytest.raises(UsageError, match="--chapters"):
        chosen([Section("") for _ in range(5)], wanted)
