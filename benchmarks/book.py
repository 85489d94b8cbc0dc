"""A whole book as .m4b: killed in the middle, resumed, checked by ffprobe; then its last chapter is changed.

    Rscript -e 'writeLines(janeaustenr::northangerabbey)' > book.txt      # Debian: r-cran-janeaustenr
    python benchmarks/book.py book.txt --title "Northanger Abbey" --author "Jane Austen" --into out

The text becomes an EPUB 3 book with a cover; a line "CHAPTER ..." of its own begins a chapter. Needs ffmpeg.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

CHAPTER = re.compile(r"^(CHAPTER .*)$", re.MULTILINE | re.IGNORECASE)
CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    '<rootfiles><rootfile full-path="book.opf"/></rootfiles></container>'
)


def chapters_of(text: str) -> list[tuple[str, list[str]]]:
    """(title, paragraphs) of each chapter; what is before the first one is left out."""
    parts = CHAPTER.split(text)[1:]
    return [
        (title.strip(), [" ".join(one.split()) for one in re.split(r"\n\s*\n", body) if one.strip()])
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    ]


def write_epub(path: Path, title: str, author: str, chapters: list[tuple[str, list[str]]]) -> None:
    cover = path.with_suffix(".png")
    subprocess.run(
        ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "color=steelblue:s=600x800", "-frames:v", "1", str(cover)],
        check=True,
    )
    items = "".join(
        f'<item id="c{n}" href="c{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(len(chapters))
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr(
            "book.opf",
            '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata xmlns:dc="d">'
            f"<dc:title>{html.escape(title)}</dc:title><dc:creator>{html.escape(author)}</dc:creator>"
            f"<dc:language>en</dc:language></metadata><manifest>{items}"
            '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
            '<item id="i" href="cover.png" properties="cover-image" media-type="image/png"/></manifest><spine>'
            + "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
            + "</spine></package>",
        )
        links = "".join(
            f'<li><a href="c{n}.xhtml">{html.escape(name)}</a></li>' for n, (name, _) in enumerate(chapters)
        )
        archive.writestr("nav.xhtml", f'<html><body><nav epub:type="toc"><ol>{links}</ol></nav></body></html>')
        archive.write(cover, "cover.png")
        for n, (name, paragraphs) in enumerate(chapters):
            body = "".join(f"<p>{html.escape(one)}</p>" for one in paragraphs)
            archive.writestr(f"c{n}.xhtml", f"<html><body><h1>{html.escape(name)}</h1>{body}</body></html>")


def command(book: Path, into: Path, more: list[str]) -> list[str]:
    return [
        sys.executable, "-m", "omnitts_cli", "say", "-f", str(book), "-o", str(into / "book.m4b"), "--work",
        str(into / "work"), "--json", "--progress", "plain", *more,
    ]  # fmt: skip


def parts_in(into: Path) -> int:
    return len(list((into / "work").glob("??/*.json")))


def run(book: Path, into: Path, more: list[str]) -> dict[str, Any]:
    began = time.perf_counter()
    done = subprocess.run(command(book, into, more), stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1])) | {"all_s": round(time.perf_counter() - began, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--title", default="A book")
    parser.add_argument("--author", default="")
    parser.add_argument("--into", type=Path, default=Path("book-out"))
    parser.add_argument("--kill-at", type=float, default=0.5, help="share of the parts")
    given, more = parser.parse_known_args()
    given.into.mkdir(parents=True, exist_ok=True)
    chapters = chapters_of(given.text.read_text("utf-8"))
    book = given.into / "book.epub"
    write_epub(book, given.title, given.author, chapters)
    words = sum(len(one.split()) for _, paragraphs in chapters for one in paragraphs)
    report: dict[str, Any] = {"chapters": len(chapters), "words": words}

    listed = subprocess.run([*command(book, given.into, more), "--list-chapters"], stdout=subprocess.PIPE, check=True)
    chars = sum(json.loads(line)["chars"] for line in listed.stdout.splitlines())
    expected = chars / 900  # characters of a part, about
    began = time.perf_counter()
    process = subprocess.Popen(command(book, given.into, more), stdout=subprocess.DEVNULL)
    while process.poll() is None and parts_in(given.into) < expected * given.kill_at:
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    report["killed"] = {"after_s": round(time.perf_counter() - began, 1), "parts": parts_in(given.into)}

    done = run(book, given.into, more)
    report["resumed"] = {key: done[key] for key in ("all_s", "units", "spoken", "audio_s", "spoken_s", "speed_x")}
    probe = subprocess.run(
        ["ffprobe", "-v", "error", "-show_chapters", "-show_format", "-show_streams", "-of", "json",
         str(given.into / "book.m4b")], stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    found = json.loads(probe.stdout)
    report["ffprobe"] = {
        "chapters": len(found["chapters"]),
        "titles_right": [one["tags"]["title"] for one in found["chapters"]] == [title for title, _ in chapters],
        "length_s": float(found["format"]["duration"]),
        "bytes": int(found["format"]["size"]),
        "streams": [one["codec_name"] for one in found["streams"]],
        "cover": any(one["disposition"].get("attached_pic") for one in found["streams"]),
        "tags": found["format"]["tags"],
    }
    chapters[-1][1].append("This paragraph was not in the book before. It is its new end.")
    write_epub(book, given.title, given.author, chapters)
    changed = run(book, given.into, more)
    report["changed"] = {
        "all_s": changed["all_s"],
        "spoken": changed["spoken"],
        "chapters_spoken": [row["chapter"] for row in changed["chapters"] if row["spoken"]],
    }
    report["peak_mib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    report["load"] = os.getloadavg()
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
