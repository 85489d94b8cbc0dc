"""The kind of a file by its first bytes: audio formats that we read, and a description of everything else."""

import codecs
from pathlib import Path

HEAD_BYTES = 64

OTHERS: list[tuple[bytes, str]] = [
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7-zip archive"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"\x80\x04\x95", "a Python pickle"),
    (b"\x1aE\xdf\xa3", "a Matroska or WebM video"),
    (b"0&\xb2u\x8ef\xcf\x11", "a WMA file"),
]

NEEDS_FFMPEG = {"m4a", "a Matroska or WebM video", "a WMA file", "aac", "ac3"}


STARTS = {
    b"fLaC": "flac", b"OggS": "ogg", b"ID3": "mp3", b".snd": "au", b"caff": "caf",
    b"\x0b\x77": "ac3",  # E-AC-3 too
}  # fmt: skip
RECORDINGS = {"wav", "rifx", "rf64", "w64", "aiff", "caf", "au", "flac", "ogg", "mp3"} | NEEDS_FFMPEG


def is_recording(path: Path) -> bool:
    """Whether a file begins like sound, whatever it is called."""
    try:
        with path.open("rb") as file:
            return kind_of(file.read(HEAD_BYTES)) in RECORDINGS
    except (OSError, ValueError):
        return False


def no_text(head: bytes) -> str | None:
    """The kind of a file that is certainly not text; None for others. A mark of UTF-16 begins like a frame of MPEG."""
    if is_text(head) or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return None
    kind = kind_of(head)
    if kind in RECORDINGS:
        return f"sound ({kind})"
    return kind if kind in [words for _, words in OTHERS] else None


def kind_of(head: bytes) -> str:
    """wav, rf64, w64, aiff, caf, au, flac, ogg, mp3, aac, ac3 or m4a; else words such as `a PNG picture`."""
    for start, kind in STARTS.items():
        if head.startswith(start):
            return kind
    if head[8:12] == b"WAVE":
        return {b"RIFF": "wav", b"RIFX": "rifx", b"RF64": "rf64"}.get(head[:4], describe(head))
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return "aiff"
    if head[:4] == b"riff" and head[24:28] == b"wave":
        return "w64"
    if head[4:8] == b"ftyp":
        return "m4a"
    return mpeg_kind(head) or describe(head)


def mpeg_kind(head: bytes) -> str | None:
    """mp3 or aac for an MPEG frame header: eleven set bits, then a layer."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    layer = head[1] >> 1 & 3
    if layer == 0:
        return "aac" if head[1] & 0xF0 == 0xF0 else None
    if head[1] >> 3 & 3 == 1 or head[2] >> 4 == 15 or head[2] >> 2 & 3 == 3:  # reserved values: no MPEG
        return None
    return "mp3"


def describe(head: bytes) -> str:
    """What bytes that are not audio look like."""
    for start, words in OTHERS:
        if head.startswith(start):
            return words
    shown = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if shown.startswith((b"<!doctype", b"<html")):
        return "a web page"
    if not head.strip(b"\0"):
        return "zero bytes"
    if shown and is_text(head):
        return "text"
    return f"bytes that begin with {head[:4].hex(' ')}"


def is_text(head: bytes) -> bool:
    """UTF-8 without control characters; a character may be cut off at the end."""
    try:
        words = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return all(character >= " " or character in "\t\r\n" for character in words)
