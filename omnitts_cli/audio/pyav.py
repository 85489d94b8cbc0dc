"""PyAV, ffmpeg's libraries in this process, where it is installed: reads what libsndfile cannot, and writes AAC."""

import io
import time
import wave
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from omnitts_cli.audio.pcm import require_finite

INSTALL = "pip install av"
MILLISECONDS = Fraction(1, 1000)


class MediaError(Exception):
    """The libraries could not read or write something; the words are their reason."""


def present() -> bool:
    """Whether it is installed."""
    return find_spec("av") is not None


@contextmanager
def failures() -> Iterator[None]:
    """Its many errors as one."""
    import av

    try:
        yield
    except (av.FFmpegError, OSError, ValueError, LookupError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise MediaError(str(reason).strip()[:300]) from None


def refuse(name: str, *flags: Any) -> Any:
    """For files that a file names: none is opened, neither here nor in the network."""
    raise PermissionError(f"the file refers to another one: {name[:80]}")


def decoded(data: BinaryIO, until_s: float, most_s: float) -> bytes:
    """The first `until_s` seconds of a file as a WAV file. Gives up after `most_s` of work."""
    import av

    out, began = io.BytesIO(), time.perf_counter()
    with failures(), av.open(data, "r", io_open=refuse) as source:
        blocks = samples_of(source)
        first = next(blocks, None)
        if first is None:
            raise MediaError("there is no sound in it")
        rate, channels, block = first
        left = max(1, round(until_s * rate))
        with wave.open(out, "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(2)
            file.setframerate(rate)
            while left > 0:
                file.writeframes(block[: left * channels].tobytes())
                left -= block.size // channels
                if (found := next(blocks, None)) is None:
                    break
                block = found[2]
                if time.perf_counter() - began > most_s:
                    raise MediaError(f"it took longer than {most_s:g} s")
    return out.getvalue()


def samples_of(source: Any) -> Iterator[tuple[int, int, np.ndarray]]:
    """The sample rate, the channels and the samples of the first track of sound, side by side, as int16."""
    from av.audio.resampler import AudioResampler

    resampler: Any = None
    for frame in source.decode(audio=0):
        if resampler is None:
            resampler = AudioResampler("s16", frame.layout, frame.sample_rate)
            rate, channels = int(frame.sample_rate), int(frame.layout.nb_channels)
        for one in resampler.resample(frame):
            yield rate, channels, one.to_ndarray().reshape(-1)
    if resampler is not None:
        for one in resampler.resample(None):
            yield rate, channels, one.to_ndarray().reshape(-1)


class AacWriter:
    """AAC into a file or something with `write`. `container`: mp4, or adts for a stream, of which every frame is
    written as soon as it is encoded.
    """

    def __init__(self, target: Any, container: str, source: int, rate: int, bit_rate: int) -> None:
        import av

        self._source, self._count = source, 0
        options = {"flush_packets": "1"} if container == "adts" else {}
        with failures():
            self._file = av.open(target, "w", format=container, options=options)
            self._stream: Any = self._file.add_stream("aac", rate=rate)
            self._stream.codec_context.layout = "mono"
            self._stream.codec_context.bit_rate = bit_rate

    def write(self, samples: np.ndarray) -> None:
        """Encodes samples."""
        from av.audio.frame import AudioFrame

        require_finite(samples)
        if not samples.size:
            return
        block = np.clip(samples, -1.0, 1.0).astype(np.float32).reshape(1, -1)
        with failures():
            frame = AudioFrame.from_ndarray(block, format="fltp", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = self._source, self._count, Fraction(1, self._source)
            self._count += samples.size
            self._file.mux(self._stream.encode(frame))

    def close(self) -> None:
        """Writes the rest."""
        with failures():
            self._file.mux(self._stream.encode(None))
            self._file.close()

    def discard(self) -> None:
        """Leaves an incomplete file."""
        try:
            with failures():
                self._file.close()
        except MediaError:
            pass


Chapter = tuple[str, float, float]
"""A title, and where it begins and ends, in seconds."""


def remux(sound: Path, out: Path, tags: Mapping[str, str], chapters: Sequence[Chapter], cover: bytes | None) -> None:
    """Copies encoded sound into an mp4 file with tags, chapters and a cover."""
    import av

    fast = {"movflags": "+faststart"}  # the index first, so that players can start at once
    with failures(), av.open(f"file:{sound}") as source, av.open(f"file:{out}", "w", "mp4", options=fast) as file:
        heard = source.streams.audio[0]
        copied = file.add_stream_from_template(heard)
        picture = add_cover(file, cover) if cover is not None else None
        file.metadata.update({name: value for name, value in tags.items() if value})
        marks: list[Any] = [
            {"id": number, "start": round(start * 1000), "end": round(end * 1000), "time_base": MILLISECONDS,
             "metadata": {"title": title}}
            for number, (title, start, end) in enumerate(chapters)
        ]  # fmt: skip
        file.set_chapters(marks)
        if picture is not None:
            file.mux(picture)
        for packet in source.demux(heard):
            if packet.dts is not None:
                packet.stream = copied
                file.mux(packet)


def add_cover(file: Any, cover: bytes) -> Any:
    """A track for a picture; returns the packet with it."""
    import av
    from av.packet import Packet
    from av.stream import Disposition

    with av.open(io.BytesIO(cover), "r", io_open=refuse) as image:
        found = image.streams.video[0]
        kind, width, height = found.codec_context.name, found.codec_context.width, found.codec_context.height
    track = file.add_mux_stream(kind, width=width, height=height)
    track.disposition = Disposition.attached_pic
    packet = Packet(cover)
    packet.stream, packet.pts, packet.dts = track, 0, 0
    return packet
