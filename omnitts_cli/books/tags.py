"""Chapter marks, tags and covers of Ogg files (Opus and Vorbis), FLAC and MP3, without any program.

Each file has a place for comments near its beginning. It is written again with them, the sound itself as it is.
"""

import base64
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from omnitts_cli.audio.encode import SoundFormat
from omnitts_cli.audio.outlet import Outlet
from omnitts_cli.audio.sinks import FileSink
from omnitts_cli.audio.target import open_target
from omnitts_cli.books.marks import Marks
from omnitts_cli.text.subtitles import clock

COPY = 1 << 20
CRC_POLYNOMIAL = 0x04C11DB7
NAMES = {"title": "TITLE", "artist": "ARTIST", "album": "ALBUM", "genre": "GENRE", "album_artist": "ALBUMARTIST",
         "track": "TRACKNUMBER"}  # fmt: skip
FRAMES = {"title": b"TIT2", "artist": b"TPE1", "album": b"TALB", "genre": b"TCON", "album_artist": b"TPE2",
          "track": b"TRCK"}  # fmt: skip
LARGEST_BLOCK = (1 << 24) - 1  # of FLAC


class Writable(Protocol):
    """What tags are written to."""

    def write(self, data: bytes, /) -> object: ...


def comments(marks: Marks, *, picture: bool) -> list[bytes]:
    """Vorbis comments: tags, CHAPTER000=00:00:00.000 and CHAPTER000NAME=title for each chapter, and a cover."""
    found = [f"{NAMES[name]}={value}" for name, value in marks.tags.items() if value and name in NAMES]
    for number, chapter in enumerate(marks.chapters):
        found += [f"CHAPTER{number:03}={clock(chapter.start_s, '.')}", f"CHAPTER{number:03}NAME={chapter.title}"]
    if picture and marks.cover is not None:
        found.append(f"METADATA_BLOCK_PICTURE={base64.b64encode(flac_picture(marks.cover)).decode()}")
    return [one.encode("utf-8", "replace") for one in found]


def comment_block(vendor: bytes, found: list[bytes]) -> bytes:
    """The vendor and the comments, each with its length."""
    parts = [struct.pack("<I", len(vendor)), vendor, struct.pack("<I", len(found))]
    return b"".join([*parts, *(struct.pack("<I", len(one)) + one for one in found)])


def vendor_of(block: bytes) -> bytes:
    (size,) = struct.unpack_from("<I", block)
    return block[4 : 4 + size]


def flac_picture(cover: bytes) -> bytes:
    """A picture block as in FLAC: front cover, its type, no size given."""
    kind = b"image/png" if cover.startswith(b"\x89PNG") else b"image/jpeg"
    return struct.pack(">II", 3, len(kind)) + kind + struct.pack(">IIIIII", 0, 0, 0, 0, 0, len(cover)) + cover


# ---- FLAC


def tag_flac(source: BinaryIO, target: Writable, marks: Marks) -> None:
    """The file with a new comment block, and a picture block."""
    target.write(source.read(4))
    last, vendor, kept = False, b"", []
    while not last:
        (head,) = struct.unpack(">I", source.read(4))
        last, kind, size = bool(head >> 31), head >> 24 & 127, head & LARGEST_BLOCK
        body = source.read(size)
        if kind == 4:
            vendor = vendor_of(body)
        elif kind != 1:  # padding
            kept.append((kind, body))
    kept.append((4, comment_block(vendor, comments(marks, picture=False))))
    if marks.cover is not None:
        kept.append((6, flac_picture(marks.cover)))
    for number, (kind, body) in enumerate(kept):
        final = number == len(kept) - 1
        target.write(struct.pack(">I", final << 31 | kind << 24 | len(body)) + body)
    copy(source, target)


def copy(source: BinaryIO, target: Writable) -> None:
    while data := source.read(COPY):
        target.write(data)


# ---- Ogg


def crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = (value << 1 ^ CRC_POLYNOMIAL if value >> 31 else value << 1) & 0xFFFFFFFF
        table.append(value)
    return table


TABLE = crc_table()


def crc(data: bytes) -> int:
    """The checksum of a page whose own field is 0."""
    value = 0
    for byte in data:
        value = (value << 8 ^ TABLE[value >> 24 ^ byte]) & 0xFFFFFFFF
    return value


def pages(source: BinaryIO) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Header (27 bytes), lacing values and body of each page."""
    while len(head := source.read(27)) == 27:
        lacing = source.read(head[26])
        yield head, lacing, source.read(sum(lacing))


def page(
    head: bytes, number: int, lacing: bytes, body: bytes, flags: int | None = None, granule: bytes | None = None
) -> bytes:
    """A page like `head` with another number and content."""
    start = head[:5] + bytes([head[5] if flags is None else flags]) + (head[6:14] if granule is None else granule)
    whole = start + head[14:18] + struct.pack("<I", number) + bytes(4) + bytes([len(lacing)]) + lacing + body
    return whole[:22] + struct.pack("<I", crc(whole)) + whole[26:]


def tag_ogg(source: BinaryIO, target: Writable, marks: Marks) -> None:
    """The file with new comments. Opus has one packet after them fewer than Vorbis; all later pages are renumbered."""
    stream = pages(source)
    head, lacing, first = next(stream)
    target.write(page(head, 0, lacing, first))
    opus = first.startswith(b"OpusHead")
    wanted, open_packet, number = (1 if opus else 2), b"", 1
    packets: list[bytes] = []
    while len(packets) < wanted:
        head, lacing, body = next(stream)
        at = 0
        for size in lacing:
            open_packet += body[at : at + size]
            at += size
            if size < 255:
                packets.append(open_packet)
                open_packet = b""
    magic = packets[0][:8] if opus else packets[0][:7]
    block = comment_block(vendor_of(packets[0][len(magic) :]), comments(marks, picture=True))
    packets[0] = magic + block + (b"" if opus else b"\x01")
    number = write_packets(target, head, packets, number)
    for head, lacing, body in stream:
        target.write(page(head, number, lacing, body))
        number += 1


def write_packets(target: Writable, head: bytes, packets: list[bytes], number: int) -> int:
    """Header packets on pages of their own; returns the number of the next page."""
    lacing = b"".join(bytes([255]) * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
    data, begins = b"".join(packets), True
    while lacing:
        now, lacing = lacing[:255], lacing[255:]
        size = sum(now)
        ended = any(value < 255 for value in now)
        granule = bytes(8) if ended else b"\xff" * 8
        target.write(page(head, number, now, data[:size], 0 if begins else 1, granule))
        data, begins, number = data[size:], now[-1] < 255, number + 1
    return number


# ---- MP3


def frame(name: bytes, body: bytes) -> bytes:
    return name + synchsafe(len(body)) + bytes(2) + body


def synchsafe(size: int) -> bytes:
    """28 bits in four bytes."""
    return bytes(size >> shift & 127 for shift in (21, 14, 7, 0))


def tag_mp3(source: BinaryIO, target: Writable, marks: Marks) -> None:
    """The file after an ID3v2.4 tag with a frame for each chapter."""
    frames = [
        frame(FRAMES[name], b"\x03" + value.encode()) for name, value in marks.tags.items() if value and name in FRAMES
    ]
    names = [f"ch{number}".encode() + b"\0" for number, _ in enumerate(marks.chapters)]
    if 0 < len(names) < 256:
        frames.append(frame(b"CTOC", b"toc\0\x03" + bytes([len(names)]) + b"".join(names)))
    for name, chapter in zip(names, marks.chapters, strict=True):
        times = struct.pack(">IIII", round(chapter.start_s * 1000), round(chapter.end_s * 1000), *[0xFFFFFFFF] * 2)
        frames.append(frame(b"CHAP", name + times + frame(b"TIT2", b"\x03" + chapter.title.encode())))
    if marks.cover is not None:
        kind = b"image/png" if marks.cover.startswith(b"\x89PNG") else b"image/jpeg"
        frames.append(frame(b"APIC", b"\x03" + kind + b"\0\x03\0" + marks.cover))
    body = b"".join(frames)
    target.write(b"ID3\x04\x00\x00" + synchsafe(len(body)) + body)
    copy(source, target)


class TaggedSink(FileSink):
    """A file that gets its marks when it is complete. `marks` is filled in before `finish`."""

    def __init__(self, path: Path, form: SoundFormat, rate: int, marks: Marks, *, no_clobber: bool = False) -> None:
        super().__init__(path, form, rate, no_clobber=no_clobber)
        self._path, self._form, self._marks, self._no_clobber = path, form, marks, no_clobber

    def finish(self) -> None:
        plain = self._open()
        self._close_track()
        assert plain.temporary is not None, "only regular files get marks"
        tagged = open_target(self._path, no_clobber=self._no_clobber)
        try:
            outlet = Outlet(tagged.file, str(self._path))
            with plain.temporary.open("rb") as source:
                TAGGERS[self._form.name](source, outlet, self._marks)
            outlet.check()
            tagged.put_in_place()
        finally:
            tagged.remove()
            self.discard()


TAGGERS: dict[str, Callable[[BinaryIO, Writable, Marks], None]] = {
    "flac": tag_flac,
    "opus": tag_ogg,
    "ogg": tag_ogg,
    "mp3": tag_mp3,
}
