"""Encoding of answers: samples to the bytes of a format, as they are made or all at once."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from omnitts_cli.audio import aac, wav
from omnitts_cli.audio.aac import AacEncoder
from omnitts_cli.audio.encode import AAC_RATES, SoundFormat, choose_format
from omnitts_cli.audio.outlet import Outlet
from omnitts_cli.audio.sinks import Track
from omnitts_cli.server.problems import busy, invalid

MEDIA = {
    "pcm": "audio/pcm", "pcm_f32": "audio/pcm", "wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac",
    "opus": "audio/ogg", "ogg": "audio/ogg", "aac": "audio/aac",
}  # fmt: skip
NAMES = {"pcm": "raw", "pcm_f32": "raw", "aac": "raw"}
"""Formats that the encoders know under another name, or not."""
MOST_FFMPEG = 8
AAC_BIT_RATE = 96_000
THREADS = ThreadPoolExecutor(4, "omnitts encoder")


class Buffer:
    """A file object that keeps what is written until it is taken, maybe in another thread."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._lock = threading.Lock()

    def write(self, data: Any) -> int:
        """Keeps the bytes."""
        with self._lock:
            self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """What was written since the last time."""
        with self._lock:
            parts, self._parts = self._parts, []
        return b"".join(parts)


def form_of(form: str, model_rate: int, rate: int | None) -> SoundFormat:
    """The format that an answer gets; opus, mp3 and aac may change the rate."""
    found = choose_format(None, NAMES.get(form, form), model_rate=model_rate, rate=rate)
    if form == "aac":
        return replace(found, rate=next((one for one in AAC_RATES if one >= found.rate), AAC_RATES[-1]))
    return replace(found, subtype="float") if form == "pcm_f32" else found


def track_of(form: str, out: Any, source: int, chosen: SoundFormat) -> Track | AacEncoder:
    """What encodes sound of the rate `source` into `out`, a file object or an Outlet."""
    if form != "aac":
        return Track(out if isinstance(out, Outlet) else Outlet(out, "the answer"), chosen, source)
    if not aac.installed():
        raise invalid("response_format", "aac needs ffmpeg or PyAV on the server", "mp3, opus, flac, wav or pcm")
    if len(aac.FfmpegWriter.running) >= MOST_FFMPEG:
        raise busy(f"{MOST_FFMPEG} aac answers are being encoded", "aac_busy")
    return aac.writer(out, source, chosen.rate, AAC_BIT_RATE)


class Encoding:
    """The encoder of one answer. Work that takes long runs in a thread."""

    def __init__(self, form: str, model_rate: int, rate: int | None) -> None:
        chosen = form_of(form, model_rate, rate)
        self.media, self.rate, self._buffer = MEDIA[form], chosen.rate, Buffer()
        self._in_thread = form not in ("wav", "pcm", "pcm_f32") or chosen.rate != model_rate
        self._track = track_of(form, self._buffer, model_rate, chosen)
        if form == "wav":  # OpenAI's length of a stream; that of pipes is for sox
            self._buffer.take()
            self._buffer.write(wav.header(chosen.rate, chosen.subtype, wav.UNKNOWN))
        if form == "opus":
            self._track.encoder.short_pages()  # type: ignore[union-attr]

    async def feed(self, samples: np.ndarray) -> bytes:
        """The bytes that are ready after these samples."""
        return await self._bytes_of(lambda: self._track.write(samples))

    async def finish(self) -> bytes:
        """The rest."""
        return await self._bytes_of(self._track.close)

    async def _bytes_of(self, work: Callable[[], None]) -> bytes:
        if self._in_thread:
            await asyncio.get_running_loop().run_in_executor(THREADS, work)
        else:
            work()
        return self._buffer.take()

    async def close(self) -> None:
        """Frees everything."""
        if not isinstance(self._track, Track):
            await asyncio.get_running_loop().run_in_executor(THREADS, self._track.discard)


def ended(track: Track | AacEncoder) -> None:
    """Ends an encoder, whatever it is doing."""
    if not isinstance(track, Track):
        track.discard()
