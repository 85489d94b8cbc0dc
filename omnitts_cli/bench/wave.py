"""Streamed audio: raw samples or a WAV stream, in pieces of any size, to float32."""

import struct

import numpy as np

UNKNOWN_BYTES = 0x7FFFF000 - 64
"""Declared lengths from here on mean an unknown length; so does 0."""
LARGEST_HEADER = 1 << 16
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE


class WireError(ValueError):
    """The received data is not valid audio."""


class RawSamples:
    """s16le, one channel."""

    def __init__(self, sample_rate: int) -> None:
        self.sample_rate = sample_rate
        self._samples = Samples(PCM, 16, 1)

    def feed(self, data: bytes) -> np.ndarray:
        return self._samples.feed(data)

    def finish(self) -> None:
        self._samples.finish()


class WavStream:
    """A WAV stream, decoded by its own header."""

    def __init__(self, sample_rate: int) -> None:
        self.sample_rate = sample_rate  # until the header is complete
        self._head: bytes | None = b""  # None: the samples have begun
        self._form: Samples | None = None
        self._left: int | None = None  # remaining bytes of samples; None: unknown

    def feed(self, data: bytes) -> np.ndarray:
        if self._head is not None:
            self._head += data
            rest = self._read_head()
            if rest is None:
                return np.zeros(0, np.float32)
            data, self._head = rest, None
        if self._left is not None:
            data = data[: self._left]  # what follows is metadata, not samples
            self._left -= len(data)
        assert self._form is not None
        return self._form.feed(data)

    def finish(self) -> None:
        if self._head is not None:
            raise WireError("the WAV stream ended in its header" if self._head else "no audio")
        if self._left:
            raise WireError(f"the WAV stream ended {self._left} bytes before its declared length")
        assert self._form is not None
        self._form.finish()

    def _read_head(self) -> bytes | None:
        """The data after the header, or None if the header is incomplete."""
        head = self._head
        assert head is not None
        if len(head) >= 12 and (head[:4] != b"RIFF" or head[8:12] != b"WAVE"):
            raise WireError(f"not a WAV stream: it begins with {head[:12]!r}")
        at = 12
        while len(head) >= at + 8:
            name, size = head[at : at + 4], struct.unpack("<I", head[at + 4 : at + 8])[0]
            if name == b"data":
                if self._form is None:
                    raise WireError("the WAV stream does not declare its sample format")
                self._left = None if size == 0 or size >= UNKNOWN_BYTES else size
                return head[at + 8 :]
            if name == b"fmt " and len(head) >= at + 8 + size:
                self._read_format(head[at + 8 : at + 8 + size])
            at += 8 + size + size % 2
        if len(head) > LARGEST_HEADER or at > LARGEST_HEADER:
            raise WireError("the WAV stream has no samples in its first 64 KiB")
        return None

    def _read_format(self, form: bytes) -> None:
        if len(form) < 16:
            raise WireError("the WAV stream has a format of less than 16 bytes")
        tag, channels, rate, _, _, bits = struct.unpack("<HHIIHH", form[:16])
        if tag == EXTENSIBLE and len(form) >= 26:
            tag = struct.unpack("<H", form[24:26])[0]
        if not 1000 <= rate <= 768_000:
            raise WireError(f"the WAV stream declares {rate} samples per second")
        self.sample_rate = rate
        self._form = Samples(tag, bits, channels)


class Samples:
    """Bytes of samples to float32 mono; keeps a partial sample for the next packet."""

    def __init__(self, tag: int, bits: int, channels: int) -> None:
        if (tag, bits) not in ((PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32)) or not 1 <= channels <= 8:
            raise WireError(f"unsupported samples: format {tag}, {bits} bits, {channels} channels")
        self._tag, self._bits, self._channels = tag, bits, channels
        self._width = bits // 8 * channels
        self._rest = b""

    def feed(self, data: bytes) -> np.ndarray:
        data = self._rest + data
        whole = len(data) // self._width * self._width
        self._rest = data[whole:]
        values = self._values(data[:whole])  # [samples * channels]
        return values.reshape(-1, self._channels)[:, 0].copy() if self._channels > 1 else values

    def finish(self) -> None:
        if self._rest:
            raise WireError(f"the audio ended in the middle of a sample: {len(self._rest)} bytes too many")

    def _values(self, data: bytes) -> np.ndarray:
        if self._tag == FLOAT:
            return np.frombuffer(data, "<f4").copy()
        if self._bits == 24:
            padded = np.zeros((len(data) // 3, 4), np.uint8)
            padded[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
            return padded.view("<i4")[:, 0].astype(np.float32) / np.float32(2**31)
        kind, full = ("<i2", 2**15) if self._bits == 16 else ("<i4", 2**31)
        return np.frombuffer(data, kind).astype(np.float32) / np.float32(full)
