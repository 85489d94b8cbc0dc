"""Whole: a complete answer, in a temporary file instead of memory, because twelve long ones took a gigabyte."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import IO, Any

import numpy as np

from omnitts_cli.audio.loudness import LoudnessSink
from omnitts_cli.audio.outlet import Outlet, write_error
from omnitts_cli.audio.sinks import Sink
from omnitts_cli.server.asked import Asked
from omnitts_cli.server.encode import MEDIA, THREADS, ended, form_of, track_of
from omnitts_cli.server.speak import chunks
from omnitts_cli.server.state import SpeechCall

NAME = "the answer"
BLOCK = 1 << 16  # bytes read from a file at once
ENOUGH = 24_000  # samples that are encoded together


@asynccontextmanager
async def made(call: SpeechCall, asked: Asked) -> AsyncIterator["TemporarySink"]:
    """The complete file of a request. It is gone after the block."""
    stream: Any = call.stream
    sink = TemporarySink(asked.form, stream.sample_rate, asked.sample_rate)
    loudness = asked.speech.loudness
    out: Any = sink if loudness == "off" else LoudnessSink(sink, float(loudness), stream.sample_rate)  # type: ignore[arg-type]
    loop, held = asyncio.get_running_loop(), list[np.ndarray]()
    try:
        async for chunk in chunks(call):
            if chunk.samples.size:
                held.append(chunk.samples)
            if sum(part.size for part in held) >= ENOUGH:
                sound, held = np.concatenate(held), []
                await loop.run_in_executor(THREADS, out.write, sound)
        await loop.run_in_executor(THREADS, finish, out, held)
        yield sink
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
        self.media, self.rate, self._source, self._samples = MEDIA[form], chosen.rate, source, 0
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

    @property
    def seconds(self) -> float:
        """Seconds of sound so far."""
        return self._samples / self._source

    def blocks(self) -> Iterator[bytes]:
        """The bytes of the finished file."""
        self.file.seek(0)
        while data := self.file.read(BLOCK):
            yield data

    def read(self) -> bytes:
        """All of its bytes."""
        return b"".join(self.blocks())

    def write(self, samples: np.ndarray) -> None:
        """Takes a block of sound."""
        self._samples += samples.size
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
