"""AAC, through PyAV if it is installed, else through the user's own ffmpeg."""

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from omnitts_cli.audio import pyav
from omnitts_cli.audio.outlet import RawFile
from omnitts_cli.audio.pcm import require_finite, to_bytes
from omnitts_cli.audio.pyav import MediaError

BLOCK = 1 << 16
AT_ONCE = ("-probesize", "32", "-analyzeduration", "0", "-blocksize", "1920")
"""Without these, ffmpeg examines the first two seconds before it encodes any."""
LAST_LINES = 3


def ffmpeg() -> str | None:
    """The path of ffmpeg, if it is what encodes; None with PyAV, and where neither is installed."""
    return None if pyav.present() else shutil.which("ffmpeg")


def installed() -> bool:
    """Whether one of them is installed."""
    return pyav.present() or ffmpeg() is not None


@dataclass(frozen=True)
class WrittenOnly:
    """A stream as an encoder sees it: it can only be written to."""

    write: Callable[[Any], Any]


class FfmpegWriter:
    """One process of ffmpeg. A thread takes the frames of a stream from it."""

    running: ClassVar[set["FfmpegWriter"]] = set()

    def __init__(self, program: str, target: Any, container: str, source: int, rate: int, bit_rate: int) -> None:
        to_file = isinstance(target, str)
        at_once, as_made = ((), ()) if to_file else (AT_ONCE, ("-flush_packets", "1"))
        resampled = ["-ar", str(rate)] if rate != source else []
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [program, "-v", "error", "-nostdin", "-y", *at_once, "-f", "f32le", "-ar", str(source), "-ac", "1",
             "-i", "pipe:0", "-map_metadata", "-1", *resampled, "-c:a", "aac", "-b:a", str(bit_rate),
             "-f", container, *as_made, target if to_file else "pipe:1"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL if to_file else subprocess.PIPE, stderr=self._errors,
            bufsize=0, start_new_session=True,  # an interrupt from the keyboard is for us
        )  # fmt: skip
        self.running.add(self)
        self._reader: threading.Thread | None = None
        if not to_file:
            self._reader = threading.Thread(target=self._read, args=(target,), name="omnitts aac", daemon=True)
            self._reader.start()

    def _read(self, target: Any) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as frames:
            while data := frames.read(BLOCK):
                target.write(data)

    def write(self, samples: np.ndarray) -> None:
        """Sends samples to the encoder."""
        require_finite(samples)
        assert self._process.stdin is not None
        rest = memoryview(to_bytes(np.clip(samples, -1.0, 1.0), "float"))
        try:
            while rest:
                rest = rest[self._process.stdin.write(rest) :]
        except OSError:
            raise self._failed() from None

    def close(self) -> None:
        """Waits for the encoder."""
        with self._errors:
            if self._end():
                raise self._failed()

    def discard(self) -> None:
        """Ends the encoder."""
        self._process.kill()
        self._end()
        self._errors.close()

    def _end(self) -> int:
        """Waits for the process, and returns its exit status."""
        self.running.discard(self)
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        if self._reader is not None:
            self._reader.join()
        return self._process.wait()

    def _failed(self) -> MediaError:
        return MediaError(last_words(self._errors))


AacEncoder = pyav.AacWriter | FfmpegWriter
"""Their methods raise MediaError."""


def writer(target: Path | RawFile, source: int, rate: int, bit_rate: int) -> AacEncoder:
    """Into an mp4 file; or ADTS frames, each as soon as it is encoded, into something with `write`. `source`: the
    sample rate of what is written."""
    where: Any = f"file:{target}" if isinstance(target, Path) else WrittenOnly(target.write)
    container = "mp4" if isinstance(target, Path) else "adts"
    program = ffmpeg()
    if program is None:
        return pyav.AacWriter(where, container, source, rate, bit_rate)
    return FfmpegWriter(program, where, container, source, rate, bit_rate)


def last_words(errors: Any) -> str:
    """What ffmpeg has written to a file before it failed."""
    errors.seek(0)
    said = errors.read().decode("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
    return "; ".join(said)[:300] or "it gave no reason"
