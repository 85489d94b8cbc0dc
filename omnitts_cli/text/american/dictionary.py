"""The dictionary on disk: sorted lines in compressed blocks, of which a look-up unpacks one.

A line is `word<TAB>reading`, or `word<TAB>reading TAG:reading ...` where the reading depends on the part of speech;
an empty one means that the letters are named. A `-` before the first reading marks words that nobody has checked.
Sounds are stored as one byte each.
"""

import json
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

SOUNDS = "ˈˌAIOQTWYabdfhijklmnpstuvwzæðŋɑɒɔəɐɛɜɡɪɹɾʃʊʌʒʤʧθᵊᵻ"
SPACE = "_"  # between the words of one reading
BLOCK = 8_000  # bytes before compression
HEAD = struct.Struct("<4sI")
MAGIC = b"OTD1"

# Letters of names of tags stay apart from sounds: sounds are stored from 128 on.
_TO_BYTE = {ord(sound): 128 + n for n, sound in enumerate(SOUNDS)}
_TO_SOUND = {byte: sound for sound, byte in _TO_BYTE.items()}


class Dictionary:
    """Words -> what the file says about them. Case counts."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        magic, size = HEAD.unpack_from(self._data)
        if magic != MAGIC:
            raise ValueError(f"{path} is not a dictionary")
        index = json.loads(zlib.decompress(self._data[HEAD.size : HEAD.size + size]))
        self._starts: list[str] = index["starts"]
        self._ends: list[int] = index["ends"]  # of the blocks in the file, from the end of the head
        self._base = HEAD.size + size
        self._blocks: dict[int, bytes] = {}

    def find(self, word: str) -> str | None:
        """The reading, or several with their tags; None where the word is not there."""
        at = bisect_right(self._starts, word) - 1
        if at < 0 or not word.isascii():
            return None
        block = self._blocks.get(at)
        if block is None:
            begin = self._base + (self._ends[at - 1] if at else 0)
            block = self._blocks[at] = zlib.decompress(self._data[begin : self._base + self._ends[at]])
        begin = block.find(b"\n%s\t" % word.encode())
        if begin < 0:
            return None
        begin += len(word) + 2
        return block[begin : block.index(b"\n", begin)].decode("latin-1").translate(_TO_SOUND)


def write(path: Path, entries: Iterable[tuple[str, str]]) -> None:
    """Entries in the order of their words' code points."""
    starts: list[str] = []
    blocks: list[bytes] = []
    lines: list[str] = []
    size = 0

    def pack() -> None:
        blocks.append(zlib.compress(("\n" + "".join(lines)).encode("latin-1"), 9))

    for word, reading in sorted(entries):
        if not lines:
            starts.append(word)
        lines.append(f"{word}\t{reading.translate(_TO_BYTE)}\n")
        size += len(lines[-1])
        if size > BLOCK:
            pack()
            lines, size = [], 0
    if lines:
        pack()
    ends, total = [], 0
    for block in blocks:
        total += len(block)
        ends.append(total)
    index = zlib.compress(json.dumps({"starts": starts, "ends": ends}).encode(), 9)
    path.write_bytes(HEAD.pack(MAGIC, len(index)) + index + b"".join(blocks))
