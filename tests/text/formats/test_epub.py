"""EPUB: chapters in order, and hostile archives refused with nothing written anywhere."""

import io
import os
import zipfile
from pathlib import Path

import pytest

from omnitts_cli.errors import InputError
from omnitts_cli.text.formats import epub
from omnitts_cli.text.formats.epub import epub_blocks

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    '<rootfiles><rootfile full-path="{}"/></rootfiles></container>'
)
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf"><manifest>
<item id="a" href="text/a%20b.xhtml" media-type="application/xhtml+xml"/>
<item id="b" href="{link}" media-type="application/xhtml+xml"/>
<item id="n" href="notes.xhtml" media-type="application/xhtml+xml"/>
<item id="c" href="style.css" media-type="text/css"/>
</manifest><spine>{spine}</spine></package>"""
SPINE = '<itemref idref="b"/><itemref idref="a"/><itemref idref="n" linear="no"/><itemref idref="c"/>'


def book(link: str = "b.xhtml", spine: str = SPINE, path: str = "OEBPS/book.opf", **more: bytes | str) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", CONTAINER.format(path))
        archive.writestr("OEBPS/book.opf", PACKAGE.format(link=link, spine=spine))
        archive.writestr("OEBPS/text/a b.xhtml", "<!DOCTYPE html><html><body><p>Second&nbsp;one.</p></body></html>")
        archive.writestr(
            "OEBPS/b.xhtml", "<html><head><title>no</title></head><body><h1>First</h1><p>words</p></body></html>"
        )
        archive.writestr("OEBPS/notes.xhtml", "<p>not in the line of reading</p>")
        for name, data in more.items():
            archive.writestr(name.replace("__", "/").replace("_xml", ".xml"), data)
    file.seek(0)
    return file


def texts(file: io.BytesIO) -> list[str]:
    return [block.text for block in epub_blocks(file, "b.epub")]


def test_chapters_come_in_the_order_of_the_spine() -> None:
    assert texts(book()) == ["First", "words", "Second one."]
    spine = '<itemref idref="b"/>' * 1000 + '<itemref idref="a"/>' * 1000
    assert texts(book(spine=spine)) == ["First", "words", "Second one."], "each is read once"


@pytest.mark.parametrize("link", ["../../../../etc/passwd", "/etc/passwd", "..%2f..%2f..%2fetc/passwd", "a\\..\\b"])
def test_links_that_leave_the_book(link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="outside the book"):
        texts(book(link))
    assert os.listdir(tmp_path) == []


def test_a_zip_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/container.xml", b" " * (15 * 2**20))
    opened: list[object] = []
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda archive, entry: opened.append(entry))
    with pytest.raises(InputError, match="unpacks") as caught:
        texts(file)
    assert "zip bomb" in (caught.value.cause or "") and opened == []


def test_a_header_with_a_wrong_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epub, "LARGEST_ENTRY", 300)
    file = book("b.xhtml")
    real = zipfile.ZipFile.getinfo

    def small(self: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
        info = real(self, name)
        info.file_size = min(info.file_size, 10)
        return info

    monkeypatch.setattr(zipfile.ZipFile, "getinfo", small)
    with pytest.raises(InputError):
        texts(file)


@pytest.mark.parametrize(
    ("limit", "value", "words"), [("LARGEST_BOOK", 500, "is larger than"), ("MOST_ENTRIES", 3, "6 files in it")]
)
def test_a_book_that_is_too_large(monkeypatch: pytest.MonkeyPatch, limit: str, value: int, words: str) -> None:
    monkeypatch.setattr(epub, limit, value)
    with pytest.raises(InputError, match=words):
        texts(book())


def test_encrypted_books() -> None:
    listed = (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><EncryptedData><CipherData>'
        '<CipherReference URI="OEBPS/b.xhtml"/></CipherData></EncryptedData></encryption>'
    )
    with pytest.raises(InputError, match="is encrypted"):
        texts(book(**{"META-INF__encryption_xml": listed}))
    fonts = listed.replace("b.xhtml", "font.otf")
    assert texts(book(**{"META-INF__encryption_xml": fonts}))[0] == "First", "only its fonts are"
    data = bytearray(book().getvalue())
    for mark, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        at = data.find(mark)
        while at >= 0:
            data[at + offset] |= 1
            at = data.find(mark, at + 4)
    with pytest.raises(InputError, match="encrypted with a password"):
        texts(io.BytesIO(bytes(data)))


@pytest.mark.parametrize(("file", "words"), [
    (io.BytesIO(b"no archive"), "not an EPUB file"), (book(spine=""), "spine is empty"),
    (book(path="gone.opf"), "lacks 'gone.opf'"), (book(link="gone.xhtml"), "lacks 'OEBPS/gone.xhtml'"),
    (book(path=""), "does not say where"),
])  # fmt: skip
def test_books_that_are_none(file: io.BytesIO, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        texts(file)
    assert caught.value.exit_code == 3


def test_a_damaged_archive() -> None:
    data = bytearray(book().getvalue())
    start = data.find(b"OEBPS/b.xhtml") + 20
    data[start : start + 30] = bytes(30)
    with pytest.raises(InputError, match="not an EPUB file"):
        texts(io.BytesIO(bytes(data)))
