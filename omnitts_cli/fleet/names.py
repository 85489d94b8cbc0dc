"""File names from ids: reversible, safe on every system, and never outside the output folder."""

import hashlib
import re
import unicodedata

from omnitts_cli.speech.voice_files import RESERVED

LONGEST_ID = 200  # bytes
LONGEST_NAME = 180  # bytes, without the suffix; file systems allow 255
TAIL = 12  # hex digits of the hash that ends a name that was cut
PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,178}(?<!\.)", re.ASCII)
ESCAPED = re.compile(rb"[^A-Za-z0-9._-]")
WRONG = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
DIGITS = 8  # of an id that is a row number; fixed, so that a manifest may grow


def checked_id(given: object) -> str:
    """The id in NFC. ValueError says in words what is wrong with it."""
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise ValueError("the id is not text")
    text = unicodedata.normalize("NFC", str(given))
    if WRONG.search(text):
        raise ValueError("the id contains a control character or half of a surrogate pair")
    if not 1 <= len(text.encode()) <= LONGEST_ID:
        raise ValueError(f"the id has {len(text.encode())} bytes; 1 to {LONGEST_ID} are allowed")
    return text


def numbered(number: int) -> str:
    """The id of a row that has none."""
    return f"{number:0{DIGITS}}"


def file_stem(id: str, *, capitals: bool = False) -> str:
    """The file name of an id, without its suffix. `capitals` escapes them too: another id differs only there."""
    if not capitals and PLAIN.fullmatch(id) and id.split(".")[0].lower() not in RESERVED:
        return id
    text = ESCAPED.sub(percent, id.encode())
    if text.startswith(b"."):
        text = b"%2E" + text[1:]
    if text.endswith(b"."):
        text = text[:-1] + b"%2E"
    if text.split(b".")[0].lower().decode() in RESERVED:
        text = b"%%%02X" % text[0] + text[1:]
    if capitals:
        text = without_capitals(text)
    name = text.decode()
    if len(name) > LONGEST_NAME:
        digest = hashlib.blake2b(name.encode(), digest_size=TAIL // 2).hexdigest()
        name = f"{name[: LONGEST_NAME - TAIL - 1].rstrip('%.')}-{digest}"
    return name


def percent(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found[0][0]


def without_capitals(text: bytes) -> bytes:
    """Capitals as %41 ..., but not those of an escape."""
    return re.sub(rb"%[0-9A-F]{2}|[A-Z]", lambda m: m[0] if len(m[0]) > 1 else percent(m), text)


def folder_of(id: str) -> str:
    """One of 256 folders."""
    return hashlib.blake2b(id.encode(), digest_size=1).hexdigest()


def relative_path(id: str, suffix: str, *, flat: bool, capitals: bool = False) -> str:
    """Where the sound of an id lies in the output folder."""
    name = file_stem(id, capitals=capitals) + suffix
    return name if flat else f"{folder_of(id)}/{name}"


def name_hash(path: str) -> int:
    """64 bits that stand for a path in plans and journals."""
    return int.from_bytes(name_digest(path), "little")


def name_digest(path: str) -> bytes:
    return hashlib.blake2b(path.encode(), digest_size=8).digest()
