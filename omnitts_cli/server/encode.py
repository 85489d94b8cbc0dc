"""Encoding of answers: samples to the bytes of a format, as they are made or all at once."""

from __future__ import annotations

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from omnitts_cli.audio import pyav, wav
from omnitts_cli.audio.encode import SoundFormat, choose_format
from omnitts_cli.audio.outlet import Outlet
from omnitts_cli.audio.pcm import require_finite, to_bytes
from omnitts_cli.audio.resample import Resampler
from omnitts_cli.audio.sinks import Track
from omnitts_cli.server.problems import busy, invalid

MEDIA = {
    "pcm": "audio/pcm",
    "pcm_f32": "audio/pcm",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "opus": "audio/ogg",
    "ogg": "audio/ogg",
    "aac": "audio/aac",
}
MOST_FFMPEG = 8
AAC_BIT_RATE = 96_000
AAC_RATES = (8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 64_000, 88_200, 96_000)
FFMPEG_BLOCK = 1 << 16
AT_ONCE = ("-probesize", "32", "-analyzeduration", "0", "-blocksize", "1920")
"""Without these, ffmpeg examines the first two seconds before it encodes any."""

THREADS = ThreadPoolExecutor(4, "omnitts encoder")


class Buffer:
    """A file object that keeps what is written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        """Keeps the bytes."""
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """What was written since the last time."""
        data, self._parts = b"".join(self._parts), []
        return data


class Raw:
    """Samples as int16 or float32, little-endian. Cheap enough for the event loop unless the rate changes."""

    def __init__(self, form: str, source: int, rate: int) -> None:
        self.rate, self._kind = rate, "float" if form == "pcm_f32" else "pcm16"
        self._resampler = Resampler(source, rate) if source != rate else None
        self.in_thread = self._resampler is not None

    def feed(self, samples: np.ndarray) -> bytes:
        """The bytes of these samples."""
        if self._resampler is None:
            require_finite(samples)
            return to_bytes(samples, self._kind)  # type: ignore[arg-type]
        return to_bytes(self._resampler.feed(samples), self._kind)  # type: ignore[arg-type]

    def finish(self) -> bytes:
        """The rest."""
        return to_bytes(self._resampler.flush(), self._kind) if self._resampler else b""  # type: ignore[arg-type]


class Encoded:
    """A stream of wav, mp3, flac, opus or ogg."""

    def __init__(self, form: SoundFormat, source: int) -> None:
        self.rate, self.in_thread = form.rate, form.name != "wav" or form.rate != source
        self._buffer = Buffer()
        self._track = Track(Outlet(self._buffer, "the answer"), form, source)
        if form.name == "wav":  # OpenAI's length of a stream; that of pipes is for sox
            self._buffer.take()
            self._buffer.write(wav.header(form.rate, form.subtype, wav.UNKNOWN))
        if form.name == "opus":
            self._track.encoder.short_pages()  # type: ignore[attr-defined]

    def feed(self, samples: np.ndarray) -> bytes:
        """The bytes that are ready."""
        self._track.write(samples)
        return self._buffer.take()

    def finish(self) -> bytes:
        """The rest."""
        self._track.close()
        return self._buffer.take()


class LibraryAac:
    """ADTS frames from PyAV."""

    in_thread = True

    def __init__(self, source: int, rate: int) -> None:
        self.rate, self._buffer = rate, Buffer()
        self._writer = pyav.AacWriter(self._buffer, "adts", source, rate, AAC_BIT_RATE)

    def feed(self, samples: np.ndarray) -> bytes:
        """The frames that are ready."""
        self._writer.write(samples)
        return self._buffer.take()

    def finish(self) -> bytes:
        """The rest."""
        self._writer.close()
        return self._buffer.take()


class Aac:
    """ADTS frames from ffmpeg, one process for each answer."""

    running = 0
    in_thread = False

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._out = bytearray()

    async def start(self, source: int) -> None:
        """Starts ffmpeg."""
        if Aac.running >= MOST_FFMPEG:
            raise busy(f"{MOST_FFMPEG} aac answers are being encoded", "aac_busy")
        Aac.running += 1
        pipe = asyncio.subprocess.PIPE
        command = ["ffmpeg", "-v", "error", *AT_ONCE, "-f", "f32le", "-ar", str(source), "-ac", "1", "-i", "pipe:0",
                   "-ar", str(self.rate), "-c:a", "aac", "-b:a", str(AAC_BIT_RATE), "-f", "adts", "-flush_packets", "1",
                   "pipe:1"]  # fmt: skip
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
            )
        except BaseException:
            Aac.running -= 1
            raise
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process and self._process.stdout
        while data := await self._process.stdout.read(FFMPEG_BLOCK):
            self._out += data

    async def feed(self, samples: np.ndarray) -> bytes:
        """The frames that are ready."""
        assert self._process and self._process.stdin
        require_finite(samples)
        self._process.stdin.write(to_bytes(np.clip(samples, -1.0, 1.0), "float"))
        await self._process.stdin.drain()
        return self._take()

    async def finish(self) -> bytes:
        """The rest."""
        assert self._process and self._process.stdin and self._reader
        self._process.stdin.close()
        await self._reader
        if await self._process.wait():
            raise RuntimeError(f"ffmpeg ended with {self._process.returncode}")
        return self._take()

    def _take(self) -> bytes:
        data = bytes(self._out)
        self._out.clear()
        return data

    async def close(self) -> None:
        """Ends the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is None:
            return
        Aac.running -= 1
        if process.returncode is None:
            process.kill()
            await process.wait()
        if self._reader:
            self._reader.cancel()


def form_of(form: str, model_rate: int, rate: int | None) -> SoundFormat:
    """The format that an answer gets; opus and mp3 may change the rate."""
    name = {"pcm": "raw", "pcm_f32": "raw", "aac": "raw"}.get(form, form)
    found = choose_format(None, name, model_rate=model_rate, rate=rate)
    if form == "aac":
        possible = next((one for one in AAC_RATES if one >= found.rate), AAC_RATES[-1])
        return SoundFormat("raw", possible)
    return found


class Encoding:
    """The encoder of one answer. Work that takes long runs in a thread."""

    def __init__(self, form: str, model_rate: int, rate: int | None) -> None:
        self.media, self._source = MEDIA[form], model_rate
        chosen = form_of(form, model_rate, rate)
        self.rate = chosen.rate
        self._aac: Aac | None = None
        self._form = form
        self._encoder: Raw | Encoded | LibraryAac
        if form == "aac" and pyav.present():
            self._encoder = LibraryAac(model_rate, chosen.rate)
        elif form == "aac":
            if shutil.which("ffmpeg") is None:
                raise invalid(
                    "response_format", "aac needs ffmpeg or PyAV on the server", "mp3, opus, flac, wav or pcm"
                )
            self._aac = Aac(chosen.rate)
        elif form in ("pcm", "pcm_f32"):
            self._encoder = Raw(form, model_rate, chosen.rate)
        else:
            self._encoder = Encoded(chosen, model_rate)

    async def start(self) -> None:
        """Must be called first."""
        if self._aac:
            await self._aac.start(self._source)

    async def feed(self, samples: np.ndarray) -> bytes:
        """The bytes that are ready after these samples."""
        if self._aac:
            return await self._aac.feed(samples)
        if not self._encoder.in_thread:
            return self._encoder.feed(samples)
        return await asyncio.get_running_loop().run_in_executor(THREADS, self._encoder.feed, samples)

    async def finish(self) -> bytes:
        """The rest."""
        if self._aac:
            return await self._aac.finish()
        if not self._encoder.in_thread:
            return self._encoder.finish()
        return await asyncio.get_running_loop().run_in_executor(THREADS, self._encoder.finish)

    async def close(self) -> None:
        """Frees everything."""
        if self._aac:
            await self._aac.close()
