"""Writers of AAC files with chapters: Library, which is PyAV, or Program, which is ffmpeg.

Sound is encoded into a file while speech is made; chapters are known at the end, so the encoded sound is then copied
into the final file together with them.
"""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np

from omnitts_cli.audio import pyav
from omnitts_cli.audio.pcm import require_finite, to_int16
from omnitts_cli.audio.pyav import MediaError
from omnitts_cli.books.marks import Marks
from omnitts_cli.errors import DeviceError

BIT_RATE = 64_000
LAST_LINES = 3
MUX_S = 3600.0


class StreamWriter(Protocol):
    """Its methods raise Failed."""

    name: str
    bit_rate: int

    def begin(self, source: int, rate: int) -> None:
        """Begins a file of this rate, for sound of the rate `source`."""

    def write(self, samples: np.ndarray) -> None:
        """Encodes samples."""

    def end(self) -> None:
        """Completes the encoded sound."""

    def mux(self, marks: Marks, output: Path) -> None:
        """Copies it into the final file."""

    def stop(self) -> None:
        """Ends early."""


def writer_for(book: Path, work: Path) -> StreamWriter:
    """What writes `book`, with its temporary files in `work`; DeviceError if neither is installed."""
    if pyav.present():
        return AacLibrary(work)
    found = shutil.which("ffmpeg")
    if found is None:
        other = book.with_suffix(".opus")
        raise DeviceError(
            f"{book} needs ffmpeg or PyAV, and neither is installed",
            hint=f"{pyav.INSTALL}   or   sudo apt install ffmpeg   or   -o {other}, which needs none",
        )
    return Program(found, work)


class AacLibrary:
    """PyAV, in this process."""

    name, bit_rate = "PyAV", BIT_RATE

    def __init__(self, work: Path) -> None:
        self._sound = work / "sound.m4a"
        self._writer: pyav.AacWriter | None = None

    def begin(self, source: int, rate: int) -> None:
        """Begins the encoded sound."""
        self._writer = pyav.AacWriter(f"file:{self._sound}", "mp4", source, rate, self.bit_rate)

    def write(self, samples: np.ndarray) -> None:
        """Encodes samples."""
        assert self._writer is not None
        self._writer.write(samples)

    def end(self) -> None:
        """Completes the encoded sound."""
        assert self._writer is not None
        self._writer.close()
        self._writer = None

    def mux(self, marks: Marks, output: Path) -> None:
        """Copies it into the final file."""
        chapters = [(one.title, one.start_s, one.end_s) for one in marks.chapters]
        pyav.remux(self._sound, output, marks.tags, chapters, marks.cover)

    def stop(self) -> None:
        """Leaves the encoded sound as it is."""
        if self._writer is not None:
            self._writer.discard()
            self._writer = None


class Program:
    """ffmpeg: one process encodes, another makes the final file."""

    name, bit_rate = "ffmpeg", BIT_RATE

    def __init__(self, path: str, work: Path) -> None:
        self._path, self._work = path, work
        self._sound, self._errors = work / "sound.m4a", work / "ffmpeg.log"
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, source: int, rate: int) -> None:
        """Starts the encoder."""
        given = ["-f", "s16le", "-ar", str(source), "-ac", "1", "-i", "pipe:0"]
        resampled = ["-ar", str(rate)] if rate != source else []
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [self._path, "-v", "error", "-nostdin", "-y", *given, "-map_metadata", "-1", "-c:a", "aac",
                 "-b:a", str(self.bit_rate), *resampled, "-f", "mp4", f"file:{self._sound}"],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors,
                start_new_session=True,  # an interrupt from the keyboard is for us
            )  # fmt: skip

    def write(self, samples: np.ndarray) -> None:
        """Sends samples to the encoder."""
        require_finite(samples)
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(to_int16(samples).tobytes())
        except OSError:
            raise self._failed() from None

    def end(self) -> None:
        """Waits for the encoder."""
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            raise self._failed() from None
        if self._process.wait():
            raise self._failed()
        self._process = None

    def mux(self, marks: Marks, output: Path) -> None:
        """The encoded sound with chapters, tags and cover."""
        about = self._work / "metadata.txt"
        about.write_text(metadata(marks), "utf-8")
        inputs, maps = [f"file:{self._sound}", f"file:{about}"], ["-map", "0:a"]
        if marks.cover is not None:
            cover = self._work / "cover"
            cover.write_bytes(marks.cover)
            inputs.append(f"file:{cover}")
            maps += ["-map", "2:v", "-disposition:v:0", "attached_pic"]
        given = [part for name in inputs for part in ("-i", name)]
        command = [self._path, "-v", "error", "-nostdin", "-y", *given, *maps, "-map_metadata", "1",
                   "-map_chapters", "1", "-c", "copy", "-movflags", "+faststart", "-f", "mp4",
                   f"file:{output}"]  # fmt: skip
        with self._errors.open("wb") as errors:
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=errors, timeout=MUX_S, check=False)
        if done.returncode:
            raise self._failed()

    def stop(self) -> None:
        """Ends the encoder."""
        if self._process is not None:
            self._process.kill()
            if self._process.stdin is not None:
                with suppress(OSError):
                    self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _failed(self) -> MediaError:
        said = self._errors.read_text("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
        return MediaError("; ".join(said)[:300] or "it gave no reason")


def metadata(marks: Marks) -> str:
    """Tags and chapters in ffmpeg's format FFMETADATA. TIMEBASE is needed: the default unit is the nanosecond."""
    lines = [";FFMETADATA1", *(f"{escaped(name)}={escaped(value)}" for name, value in marks.tags.items() if value)]
    for chapter in marks.chapters:
        lines += ["[CHAPTER]", "TIMEBASE=1/1000", f"START={round(chapter.start_s * 1000)}",
                  f"END={round(chapter.end_s * 1000)}", f"title={escaped(chapter.title)}"]  # fmt: skip
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """For FFMETADATA. ffmpeg reads an escaped backslash at the end of a line as an escaped line end."""
    text = f"{text} " if text.endswith("\\") else text
    return "".join(f"\\{one}" if one in "=;#\\\n" else one for one in text.replace("\0", ""))
