"""WAV with the plain 44-byte header, written as a stream; lengths are corrected at the end if the target can seek.

The RIFF limit: lengths are 32 bits, so a file holds up to 4 GiB - 44 bytes (24.8 hours of 24 kHz
pcm16). A longer file keeps growing and says 0xFFFFFFFF, which readers take as "to the end of the
file". On a pipe the length cannot be known, so the header says 0x7FFFF000 (12.4 hours), the one value
that sox, libsndfile and Python's wave all read without a complaint.
"""

import struct

import numpy as np

from omnitts_cli.audio.outlet import Outlet
from omnitts_cli.audio.pcm import BYTES_PER_SAMPLE, Subtype, to_bytes

STREAM_BYTES = 0x7FFFF000
LARGEST_DATA = 0xFFFFFFFF - 36
UNKNOWN = 0xFFFFFFFF
HEADER_BYTES = 44


def header(rate: int, subtype: Subtype, data_bytes: int) -> bytes:
    """The 44 bytes in front of `data_bytes` of samples of one channel."""
    width = BYTES_PER_SAMPLE[subtype]
    if data_bytes > LARGEST_DATA:
        riff_bytes = data_bytes = UNKNOWN
    else:
        riff_bytes = 36 + data_bytes + data_bytes % 2
    tag = 3 if subtype == "float" else 1
    form = struct.pack("<HHIIHH", tag, 1, rate, rate * width, width, width * 8)
    riff = b"RIFF" + struct.pack("<I", riff_bytes) + b"WAVEfmt " + struct.pack("<I", 16) + form
    return riff + b"data" + struct.pack("<I", data_bytes)


def whole(samples: np.ndarray, rate: int, subtype: Subtype = "pcm16") -> bytes:
    """A complete WAV file of one channel."""
    data = to_bytes(samples, subtype)
    return header(rate, subtype, len(data)) + data + b"\0" * (len(data) % 2)


class WavWriter:
    """WAV block by block. Until `close`, and always on a pipe, the header holds the streaming length."""

    def __init__(self, outlet: Outlet, rate: int, subtype: Subtype = "pcm16") -> None:
        self.outlet, self.rate, self.subtype = outlet, rate, subtype
        self.data_bytes = 0
        width = BYTES_PER_SAMPLE[subtype]
        outlet.write(header(rate, subtype, STREAM_BYTES // width * width))
        outlet.check()

    def write(self, samples: np.ndarray) -> None:
        data = to_bytes(samples, self.subtype)
        self.data_bytes += len(data)
        self.outlet.write(data)
        self.outlet.check()

    def close(self) -> None:
        """Puts the lengths right, where that is possible."""
        if self.outlet.seekable:
            if self.data_bytes % 2:
                self.outlet.write(b"\0")
            self.outlet.seek(0)
            self.outlet.write(header(self.rate, self.subtype, self.data_bytes))
            self.outlet.seek(0, 2)
        self.outlet.check()

    @property
    def notice(self) -> str | None:
        """What the user must know about the length of this stream."""
        if not self.outlet.seekable and self.data_bytes > STREAM_BYTES:
            return f"the WAV stream is longer than the {STREAM_BYTES:,} bytes in its header; use -F raw or -F flac"
        if self.data_bytes > LARGEST_DATA:
            return "the WAV file is larger than 4 GiB; its header says 'to the end of the file'. Use -F flac"
        return None


class RawWriter:
    """Samples without a header."""

    def __init__(self, outlet: Outlet, subtype: Subtype) -> None:
        self.outlet, self.subtype = outlet, subtype
        self.notice: str | None = None

    def write(self, samples: np.ndarray) -> None:
        self.outlet.write(to_bytes(samples, self.subtype))
        self.outlet.check()

    def close(self) -> None:
        self.outlet.check()
