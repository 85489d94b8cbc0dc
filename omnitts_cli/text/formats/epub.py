"""EPUB 2 and 3: chapters, title, author and cover. Read in memory with limits; nothing is ever unpacked to disk.

The spine gives the order, the table of contents the titles. A chapter goes from its entry to the next one, be it a file
of its own, several files, or a part of one. Without a usable table of contents, a file is a chapter.
"""

import codecs
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO
from urllib.parse import unquote

from omnitts_cli.errors import InputError
from omnitts_cli.text.clean import safe_for_terminal
from omnitts_cli.text.formats.block import Block, Document, Section
from omnitts_cli.text.formats.contents import ContentsEntry, contents
from omnitts_cli.text.formats.html import html_blocks
from omnitts_cli.text.formats.ssml import local, parse

MOST_ENTRIES = 20_000
LARGEST_ENTRY = 16 * 2**20
LARGEST_BOOK = 128 * 2**20
LARGEST_RATIO = 200
CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
NCX = "application/x-dtbncx+xml"
LARGEST_COVER = 10 * 2**20
LARGEST_PICTURE_RATIO = 1000
PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")  # how JPEG and PNG files begin
DECLARED = re.compile(rb"""\A\s*<\?xml[^>]{0,100}encoding=["']([A-Za-z0-9._-]{1,40})["']""")
DOCTYPE = re.compile(r"<!DOCTYPE[^\[<>]{0,1000}>", re.IGNORECASE)  # one that declares nothing itself
PAGES = {"application/xhtml+xml", "text/html", "application/x-dtbook+xml"}


def epub_blocks(file: BinaryIO, name: str) -> Iterator[Block]:
    """The blocks of all chapters."""
    with opened(file, name) as book:
        for chapter in book.spine():
            yield from html_blocks(book.text(chapter))


def epub_document(file: BinaryIO, name: str, level: int | None = None) -> Document:
    """The whole book in chapters. `level`: how deep the table of contents is followed; by default to the first level
    that has more than one entry.
    """
    with opened(file, name) as book:
        return book.document(level)


@contextmanager
def opened(file: BinaryIO, name: str) -> "Iterator[EpubArchive]":
    """The open book; InputError for what is not one."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield EpubArchive(archive, name)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OSError, struct.error) as error:
        hint = None if name == "standard input" else f"file {name}   shows what it is"
        raise InputError(f"{name} is not an EPUB file that can be read", cause=str(error), hint=hint) from error


class EpubArchive:
    """An open archive and how much of it was read."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive, self._name = archive, name
        self._read = 0
        self._tree: tuple[str, Any] | None = None
        entries = archive.infolist()
        if len(entries) > MOST_ENTRIES:
            raise InputError(f"{name} has {len(entries)} files in it; {MOST_ENTRIES} are allowed")

    def document(self, level: int | None) -> Document:
        """Title, author, cover and chapters."""
        wanted = self.spine()
        found = Document(self._about("title"), ", ".join(self._all_about("creator")), self._about("language"))
        try:
            entries = at_level(self._contents(), level, set(wanted))
        except InputError as error:
            entries = []
            found.notices.append(f"{error.message}; chapters are found without it")
        if entries:
            found.sections = self._by_contents(wanted, entries)
        else:
            found.sections = self._by_file(wanted)
        try:
            found.cover = self._cover()
        except InputError as error:
            found.notices.append(f"{error.message}; the book gets none")
        return found

    def _by_contents(self, wanted: list[str], entries: list[tuple[str, str, str]]) -> list[Section]:
        """Chapters from one entry of the table of contents to the next."""
        places: dict[str, dict[str, str]] = {}  # file -> anchor -> title
        for title, path, anchor in entries:
            places.setdefault(path, {}).setdefault(anchor, title)
        sections = [Section("")]  # what is before the first entry
        for path in wanted:
            titles = places.get(path, {})
            blocks = list(html_blocks(self.text(path), [anchor for anchor in titles if anchor]))
            marked = {block.anchor for block in blocks if block.anchor}
            whole = next((anchor for anchor in titles if anchor not in marked), None)  # "", or one that is not there
            if whole is not None:
                sections.append(Section(titles[whole]))
            for block in blocks:
                if block.anchor:
                    sections.append(Section(titles[block.anchor]))
                else:
                    sections[-1].blocks.append(block)
        if not sections[0].title and sections[0].blocks:
            sections[0].title = heading_of(sections[0].blocks) or "Front matter"
        return [section for section in sections if section.blocks]

    def _by_file(self, wanted: list[str]) -> list[Section]:
        """A chapter for each file that begins with a heading; the other files go on with it."""
        files = [list(html_blocks(self.text(path))) for path in wanted]
        titled = any(heading_of(blocks) for blocks in files)
        sections: list[Section] = []
        for blocks in files:
            title = heading_of(blocks)
            if not blocks:
                continue
            if title or not titled or not sections:
                sections.append(Section(title or ("Front matter" if titled else f"Chapter {len(sections) + 1}")))
            sections[-1].blocks.extend(blocks)
        return sections

    def spine(self) -> list[str]:
        """The entry names of the chapters in reading order. A page that is only the table of contents is left out."""
        folder, package = self._package()
        pages = {
            item.get("id"): self._inside(folder, item.get("href", ""))
            for item in package.iter()
            if local(item.tag) == "item"
            and item.get("media-type") in PAGES
            and "nav" not in item.get("properties", "").split()
        }
        wanted = [
            pages[item.get("idref")]
            for item in package.iter()
            if local(item.tag) == "itemref" and item.get("linear") != "no" and item.get("idref") in pages
        ]
        if not wanted:
            raise InputError(
                f"{self._name} has no reading order (its spine is empty)", hint="open it in an EPUB editor and save it"
            )
        self._refuse_encrypted(wanted)
        return list(dict.fromkeys(wanted))  # a file is a chapter once, however often the book names it

    def _items(self) -> list[Any]:
        return [item for item in self._package()[1].iter() if local(item.tag) == "item"]

    def _all_about(self, name: str) -> list[str]:
        """The values of a field such as title, creator or language."""
        found = (" ".join((item.text or "").split()) for item in self._package()[1].iter() if local(item.tag) == name)
        return [safe_for_terminal(text, 300) for text in found if text]

    def _about(self, name: str) -> str:
        return next(iter(self._all_about(name)), "")

    def _contents(self) -> list[tuple[ContentsEntry, str, str]]:
        """The table of contents: each entry with its file and anchor. Empty if there is none."""
        folder, package = self._package()
        table = next((item for item in self._items() if "nav" in item.get("properties", "").split()), None)
        if table is None:
            named = next((item.get("toc") for item in package.iter() if local(item.tag) == "spine"), None)
            tables = [item for item in self._items() if item.get("media-type") == NCX or item.get("id") == named]
            table = next(iter(tables), None)
        if table is None:
            return []
        path = self._inside(folder, table.get("href", ""))
        base = posixpath.dirname(path)
        found = []
        for entry in contents(self.text(path)):
            link, _, anchor = entry.link.partition("#")
            found.append((entry, self._inside(base, link) if link else path, unquote(anchor)))
        return found

    def _cover(self) -> bytes | None:
        """The picture of the cover, where it is a JPEG or PNG file."""
        folder, package = self._package()
        named = [item.get("content") for item in package.iter()
                 if local(item.tag) == "meta" and item.get("name") == "cover"]  # fmt: skip
        items = self._items()
        found = [item for item in items if "cover-image" in item.get("properties", "").split()]
        found += [item for item in items if item.get("id") in named]
        found += [item for item in items if "cover" in item.get("id", "").lower()]
        for item in found:
            if not item.get("media-type", "").startswith("image/"):
                continue
            data = self.data(self._inside(folder, item.get("href", "")), LARGEST_COVER, LARGEST_PICTURE_RATIO)
            if data.startswith(PICTURES):
                return data
            raise InputError(f"the cover of {self._name} is neither JPEG nor PNG")
        return None

    def _package(self) -> tuple[str, Any]:
        """The folder of the package file, and its element tree."""
        if self._tree is None:
            container = parse(self.text(CONTAINER), f"{self._name}: {CONTAINER}")
            paths = [item.get("full-path") for item in container.iter() if local(item.tag) == "rootfile"]
            if not paths or not paths[0]:
                raise InputError(
                    f"{self._name} does not say where its chapters are ({CONTAINER})",
                    hint="open it in an EPUB editor and save it",
                )
            path = self._inside("", paths[0])
            self._tree = posixpath.dirname(path), parse(DOCTYPE.sub("", self.text(path), 1), f"{self._name}: {path}")
        return self._tree

    def _inside(self, folder: str, link: str) -> str:
        """The entry name that a link means; links that leave the book are refused."""
        path = posixpath.normpath(posixpath.join(folder, unquote(link.split("#", 1)[0])))
        if path.startswith(("../", "/")) or path == ".." or "\\" in path or "\0" in path:
            raise InputError(f"{self._name} refers to '{safe_for_terminal(link, 80)}', which is outside the book")
        return path

    def _refuse_encrypted(self, wanted: list[str]) -> None:
        if ENCRYPTION not in self._archive.namelist():
            return
        listed = parse(self.text(ENCRYPTION), f"{self._name}: {ENCRYPTION}")
        locked = {unquote(item.get("URI", "")) for item in listed.iter() if local(item.tag) == "cipherreference"}
        if locked & set(wanted):
            raise InputError(f"{self._name} is encrypted (copy protection); it cannot be read")

    def text(self, entry: str) -> str:
        """One text file of the book, within the limits."""
        return decoded(self.data(entry))

    def data(self, entry: str, largest: int | None = None, ratio: int = LARGEST_RATIO) -> bytes:
        """One file of the book, within the limits."""
        largest = largest or LARGEST_ENTRY
        try:
            info = self._archive.getinfo(entry)
        except KeyError:
            raise InputError(
                f"{self._name} lacks '{safe_for_terminal(entry, 80)}'", hint="the book is incomplete; get it again"
            ) from None
        if info.flag_bits & 1:
            raise InputError(f"{self._name} is encrypted with a password; it cannot be read")
        packed = max(1, info.compress_size)
        if info.file_size > largest or (info.file_size > 2**20 and info.file_size / packed > ratio):
            raise InputError(
                f"{self._name}: '{safe_for_terminal(entry, 80)}' unpacks {packed:,} bytes to {info.file_size:,}",
                cause="it looks like a zip bomb and is not read",
            )
        with self._archive.open(info) as file:
            data = file.read(largest + 1)
        self._read += len(data)
        if len(data) > largest or self._read > LARGEST_BOOK:
            raise InputError(f"{self._name} is larger than {LARGEST_BOOK >> 20} MiB of text")
        return data


def decoded(data: bytes) -> str:
    """XML is UTF-8, UTF-16 with a mark, or what its first line says; a chapter with a wrong byte is still read."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    declared = DECLARED.match(data[:200])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        name = declared[1].decode() if declared else "utf-8"
        return data.decode("utf-8" if not known(name) else name, "replace")


def known(encoding: str) -> bool:
    """Whether this is the name of a text encoding."""
    try:
        return codecs.lookup(encoding)._is_text_encoding
    except LookupError:
        return False


def heading_of(blocks: list[Block]) -> str:
    """The heading with which a chapter begins."""
    return next((" ".join(block.text.split()) for block in blocks[:3] if block.level), "")


def at_level(
    entries: list[tuple[ContentsEntry, str, str]], level: int | None, files: set[str]
) -> list[tuple[str, str, str]]:
    """Title, file and anchor of the entries down to a level; by default to the first that has more than one entry."""
    usable = [(entry, path, anchor) for entry, path, anchor in entries if path in files]
    if level is None:
        levels = sorted({entry.level for entry, _, _ in usable})
        level = next(
            (one for one in levels if sum(e.level == one for e, _, _ in usable) > 1), levels[-1] if levels else 1
        )
    return [(entry.title, path, anchor) for entry, path, anchor in usable if entry.level <= level]
