"""Books for tests: EPUB files of any shape, and what ffprobe says about a finished one."""

import io
import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    '<rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
)
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000080000000808020000004b6d29dc00000009704859730000000100000001004f25c4d6"
    "0000001249444154789c63f8cbc0801561171db41200f6703f41b61a414d0000000049454e44ae426082"
)
"""A red picture of 8 x 8."""


def page(words: str, heading: str = "") -> str:
    title = f"<h1>{heading}</h1>" if heading else ""
    return f"<html><head><title>no</title></head><body>{title}<p>{words}</p></body></html>"


def epub(
    chapters: list[tuple[str, str]],
    *,
    nav: str | None = "",
    ncx: str | None = None,
    version: str = "3.0",
    title: str = "A Book",
    author: str = "Jane Roe",
    metadata: str = "",
    items: str = "",
    spine: str | None = None,
    **files: bytes | str,
) -> bytes:
    """An EPUB file of chapters (title, page). `nav`: the navigation page, "" for one of all chapters, None for none.
    `files`: more files, by name with __ for / and _dot_ for a point.
    """
    manifest = "".join(
        f'<item id="c{n}" href="text/c{n}.xhtml" media-type="application/xhtml+xml"/>'
        for n, _ in enumerate(chapters, 1)
    )
    if nav == "":
        links = "".join(f'<li><a href="text/c{n}.xhtml">{name}</a></li>' for n, (name, _) in enumerate(chapters, 1))
        nav = f'<html xmlns:epub="e"><body><nav epub:type="toc"><ol>{links}</ol></nav></body></html>'
    if nav is not None:
        manifest += '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
    if ncx is not None:
        manifest += '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
    if spine is None:
        spine = "".join(f'<itemref idref="c{n}"/>' for n, _ in enumerate(chapters, 1))
    package = (
        f'<package xmlns="http://www.idpf.org/2007/opf" version="{version}"><metadata xmlns:dc="d">'
        f"<dc:title>{title}</dc:title><dc:creator>{author}</dc:creator><dc:language>en</dc:language>{metadata}"
        f'</metadata><manifest>{manifest}{items}</manifest><spine toc="ncx">{spine}</spine></package>'
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr("OEBPS/book.opf", package)
        for number, (_, content) in enumerate(chapters, 1):
            archive.writestr(f"OEBPS/text/c{number}.xhtml", content)
        if nav is not None:
            archive.writestr("OEBPS/nav.xhtml", nav)
        if ncx is not None:
            archive.writestr("OEBPS/toc.ncx", ncx)
        for name, data in files.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), data)
    return file.getvalue()


def probe(path: str | Path) -> dict[str, Any]:
    """What ffprobe says: chapters, format and streams."""
    command = ["ffprobe", "-v", "error", "-show_chapters", "-show_format", "-show_streams", "-of", "json", str(path)]
    return dict(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
