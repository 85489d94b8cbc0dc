"""EPUB: the chapters of the spine, in order. Read in memory with limits; nothing is ever unpacked to disk."""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO
from urllib.parse import unquote

from omnitts_cli.errors import InputError
from omnitts_cli.text.clean import safe_for_terminal
from omnitts_cli.text.formats.block import Block
from omnitts_cli.text.formats.html import html_blocks
from omnitts_cli.text.formats.ssml import local, parse

MOST_ENTRIES = 20_000
LARGEST_ENTRY = 16 * 2**20
LARGEST_BOOK = 128 * 2**20
LARGEST_RATIO = 200
CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
PAGES = {"application/xhtml+xml", "text/html", "application/x-dtbook+xml"}


def epub_blocks(file: BinaryIO, name: str) -> Iterator[Block]:
    """The blocks of all chapters."""
    try:
        with zipfile.ZipFile(file) as archive:
            book = Book(archive, name)
            for chapter in book.spine():
                yield from html_blocks(book.text(chapter))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{name} is not an EPUB file that can be read", cause=str(error)) from error


class Book:
    """An open archive and how much of it was read."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive, self._name = archive, name
        self._read = 0
        entries = archive.infolist()
        if len(entries) > MOST_ENTRIES:
            raise InputError(f"{name} has {len(entries)} files in it; {MOST_ENTRIES} are allowed")

    def spine(self) -> list[str]:
        """The entry names of the chapters in reading order."""
        folder, package = self._package()
        pages = {
            item.get("id"): self._inside(folder, item.get("href", ""))
            for item in package.iter()
            if local(item.tag) == "item" and item.get("media-type") in PAGES
        }
        wanted = [
            pages[item.get("idref")]
            for item in package.iter()
            if local(item.tag) == "itemref" and item.get("linear") != "no" and item.get("idref") in pages
        ]
        if not wanted:
            raise InputError(f"{self._name} has no reading order (its spine is empty)")
        self._refuse_encrypted(wanted)
        return wanted

    def _package(self) -> tuple[str, Any]:
        container = parse(self.text(CONTAINER), f"{self._name}: {CONTAINER}")
        paths = [item.get("full-path") for item in container.iter() if local(item.tag) == "rootfile"]
        if not paths or not paths[0]:
            raise InputError(f"{self._name} does not say where its chapters are ({CONTAINER})")
        path = self._inside("", paths[0])
        return posixpath.dirname(path), parse(self.text(path), f"{self._name}: {path}")

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
        """One file of the book, within the limits."""
        try:
            info = self._archive.getinfo(entry)
        except KeyError:
            raise InputError(f"{self._name} lacks '{safe_for_terminal(entry, 80)}'") from None
        if info.flag_bits & 1:
            raise InputError(f"{self._name} is encrypted with a password; it cannot be read")
        packed = max(1, info.compress_size)
        if info.file_size > LARGEST_ENTRY or (info.file_size > 2**20 and info.file_size / packed > LARGEST_RATIO):
            raise InputError(
                f"{self._name}: '{safe_for_terminal(entry, 80)}' unpacks {packed:,} bytes to {info.file_size:,}",
                cause="it looks like a zip bomb and is not read",
            )
        with self._archive.open(info) as file:
            data = file.read(LARGEST_ENTRY + 1)
        self._read += len(data)
        if len(data) > LARGEST_ENTRY or self._read > LARGEST_BOOK:
            raise InputError(f"{self._name} is larger than {LARGEST_BOOK >> 20} MiB of text")
        return decoded(data)


def decoded(data: bytes) -> str:
    """XML is UTF-8 or UTF-16 with a mark; a chapter with a wrong byte is still read."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")
