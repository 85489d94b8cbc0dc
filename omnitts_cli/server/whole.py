"""Whole: a complete answer, in a temporary file instead of memory, because twelve long ones took a gigabyte."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from omnitts_cli.audio.loudness import LoudnessSink
from omnitts_cli.audio.outlet import Outlet, write_error
from omnitts_cli.audio.sinks import Sink
from omnitts_cli.server.asked import Asked
from omnitts_cli.server.encode import MEDIA, THREADS, ended, form_of, track_of
from omnitts_cli.server.speak import chunks, note_first_sound
from omnitts_cli.server.state import SpeechCall

NAME = "the answer"
BLOCK = 1 << 16  # bytes read from a file at once
ENOUGH = 24_000  # samples that are encoded together


@dataclass
class Whole:
    """A finished answer."""

    file: IO[bytes]
    size: int
    media: str
    rate: int
    seconds: float

    def blocks(self) -> Iterator[bytes]:
        """Its bytes."""
        self.file.seek(0)
        while data := self.file.read(BLOCK):
            yield data

    def read(self) -> bytes:
        """All of its bytes."""
        return b"".join(self.blocks())


@asynccontextmanager
async def made(call: SpeechCall, asked: Asked) -> AsyncIterator[Whole]:
    """The complete file of a request. It is gone after the block."""
    stream: Any = call.stream
    sink = TemporarySink(asked.form, stream.sample_rate, asked.sample_rate)
    loudness = asked.speech.loudness
    out: Any = sink if loudness == "off" else LoudnessSink(sink, float(loudness), stream.sample_rate)  # type: ignore[arg-type]
    loop, held, samples = asyncio.get_running_loop(), list[np.ndarray](), 0
    try:
        async for chunk in chunks(call):
            if chunk.samples.size:
                note_first_sound(call)
                held.append(chunk.samples)
                samples += chunk.samples.size
            if sum(part.size for part in held) >= ENOUGH:
                sound, held = np.concatenate(held), []
                await loop.run_in_executor(THREADS, out.write, sound)
        await loop.run_in_executor(THREADS, finish, out, held)
        seconds = samples / stream.sample_rate
        yield Whole(sink.file, sink.size, MEDIA[asked.form], sink.rate, seconds)
    finally:
        out.discard()


def finish(out: Any, held: list[np.ndarray]) -> None:
    """Writes the rest."""
    if held:
        out.write(np.concatenate(held))
    out.finish()


class TemporarySink(Sink):
    """Sound in a temporary file of one format, with right lengths in its header."""

    def __init__(self, form: str, source: int, rate: int | None) -> None:
        super().__init__()
        chosen = form_of(form, source, rate)
        self.rate = chosen.rate
        self.file: IO[bytes] = tempfile.TemporaryFile()  # closed by `discard`
        self._outlet = Outlet(self.file, NAME)  # type: ignore[arg-type]
        try:
            self._track = track_of(form, self._outlet, source, chosen)
        except BaseException:
            self.file.close()
            raise

    @property
    def size(self) -> int:
        """Bytes so far."""
        return os.fstat(self.file.fileno()).st_size

    def write(self, samples: np.ndarray) -> None:
        """Takes a block of sound."""
        self._track.write(samples)
        self._outlet.check()

    def finish(self) -> None:
        """Everything is in the file."""
        self._track.close()
        self._outlet.check()
        try:
            self.file.flush()
        except OSError as error:
            raise write_error(NAME, error) from error

    def discard(self) -> None:
        """Removes the file."""
        ended(self._track)
        self.file.close()
