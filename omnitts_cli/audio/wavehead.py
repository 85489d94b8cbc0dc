"""The header of a WAV file of any origin, checked against the bytes that are there."""

import os
import struct
from dataclasses import dataclass
from typing import BinaryIO

from omnitts_cli.audio.resample import HIGHEST_RATE, LOWEST_RATE
from omnitts_cli.errors import InputError

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
MOST_CHANNELS = 32
MOST_CHUNKS = 1000
STREAM_LENGTH = 0x7FFFF000 - 0x1000
"""Data lengths from here on are what writers say who do not know the length."""


@dataclass(frozen=True)
class WaveHead:
    """Positions are bytes in the file. `claimed`: the data length in the header; `there`: the bytes that follow."""

    channels: int
    rate: int
    frame_bytes: int
    data_at: int
    claimed: int
    there: int

    @property
    def streamed(self) -> bool:
        """Whether the writer did not know the length."""
        return self.claimed >= STREAM_LENGTH or (self.claimed == 0 and self.there > 0)

    @property
    def missing(self) -> int:
        """Bytes that the header promises and the file lacks."""
        return 0 if self.streamed else max(0, self.claimed - self.there)

    @property
    def data_bytes(self) -> int:
        return self.there if self.streamed else min(self.claimed, self.there)


def read_head(file: BinaryIO, name: str) -> WaveHead:
    """Walks the chunks up to the samples. Insane numbers are refused here, before libsndfile sees them."""
    size = file.seek(0, os.SEEK_END)
    position, form = 12, b""
    for _ in range(MOST_CHUNKS):
        file.seek(position)
        chunk = file.read(8)
        if len(chunk) < 8:
            break
        length = struct.unpack("<I", chunk[4:])[0]
        if chunk[:4] == b"fmt ":
            form = file.read(min(length, 40))
        elif chunk[:4] == b"data":
            return checked_head(form, position + 8, length, size - position - 8, name)
        position += 8 + length + length % 2
    raise InputError(
        f"reference clip {name} contains no audio", cause=f"its WAV header is not followed by samples ({size} bytes)"
    )


def checked_head(form: bytes, data_at: int, claimed: int, there: int, name: str) -> WaveHead:
    if len(form) < 16:
        raise InputError(f"reference clip {name} is a damaged WAV file", cause="its format description is missing")
    _, channels, rate, _, frame_bytes, bits = struct.unpack("<HHIIHH", form[:16])
    problem = None
    if not 1 <= channels <= MOST_CHANNELS:
        problem = f"it says {channels} channels; 1-{MOST_CHANNELS} can be"
    elif not LOWEST_RATE <= rate <= HIGHEST_RATE:
        problem = f"it says {rate} samples per second; {LOWEST_RATE}-{HIGHEST_RATE} can be"
    elif bits > 64 or (bits == 0 and form[:2] in (b"\x01\0", b"\x03\0", b"\xfe\xff")):
        problem = f"it says {bits} bits per sample"
    if problem:
        raise InputError(f"reference clip {name} has an invalid header", cause=problem)
    if claimed == 0 and there == 0:
        raise InputError(f"reference clip {name} contains no audio", cause="its WAV header says 0 bytes of samples")
    return WaveHead(channels, rate, max(1, frame_bytes), data_at, claimed, there)


def true_lengths(head: WaveHead) -> dict[int, bytes]:
    """What the two lengths in the header should say, by their places."""
    whole = head.data_bytes // head.frame_bytes * head.frame_bytes
    return {
        4: struct.pack("<I", min(head.data_at - 8 + whole, 0xFFFFFFFF)),
        head.data_at - 4: struct.pack("<I", min(whole, 0xFFFFFFFF)),
    }
