"""M4bSink: an audiobook file through ffmpeg: AAC, chapter marks, cover, tags. Nothing is held in memory.

ffmpeg encodes while speech is made; chapters are known at the end, so a second call copies the encoded sound into the
final file together with them.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from omnitts_cli.audio.pcm import require_finite, to_int16
from omnitts_cli.audio.sinks import BaseSink
from omnitts_cli.audio.target import open_target
from omnitts_cli.errors import DeviceError, InputError, OutputError
from omnitts_cli.text.formats.epub import LARGEST_COVER, PICTURES

SUFFIX = ".m4b"
BITRATE = "64k"
LAST_LINES = 3
MUX_S = 3600.0


@dataclass(frozen=True)
class Mark:
    """A chapter and its place in the sound, in seconds."""

    title: str
    start_s: float
    end_s: float
    number: int = 0
    spoken: int = 0  # units that this run has spoken
    units: int = 0


@dataclass
class Marks:
    """What a book's file says about itself. `tags` by the names of ffmpeg: title, artist, album."""

    chapters: list[Mark] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    cover: bytes | None = None


def ffmpeg(book: Path) -> str:
    """The path of ffmpeg, which writes `book`; DeviceError without it."""
    found = shutil.which("ffmpeg")
    if found is None:
        other = book.with_suffix(".opus")
        raise DeviceError(
            f"{book} needs ffmpeg, which is not installed",
            hint=f"sudo apt install ffmpeg   or   brew install ffmpeg   or   -o {other}, which needs none",
        )
    return found


def read_cover(name: str) -> bytes:
    """The file of --cover, which must be JPEG or PNG."""
    try:
        with open(name, "rb") as file:
            data = file.read(LARGEST_COVER + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot read cover {name}: {reason}", hint=f"ls -l {name}") from None
    if not data.startswith(PICTURES) or len(data) > LARGEST_COVER:
        raise InputError(
            f"cover {name} is not a JPEG or PNG file of at most {LARGEST_COVER >> 20} MiB",
            hint=f"ffmpeg -i {name} cover.jpg",
        )
    return data


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


class M4bSink(BaseSink):
    """The file, complete or not at all. `marks` is filled in before `finish`; `work` is for temporary files."""

    def __init__(self, path: Path, work: Path, marks: Marks, *, no_clobber: bool = False) -> None:
        super().__init__()
        self._program = ffmpeg(path)
        self._marks, self._work = marks, work
        self._target = open_target(path, no_clobber=no_clobber)
        self._name = str(path)
        if self._target.temporary is None:
            self._target.remove()
            raise OutputError(
                f"cannot write {path}: an {path.suffix or SUFFIX} file cannot go into a pipe", hint="-o book.m4b"
            )
        self._rate: int | None = None  # of the file, if it is not that of the sound
        self._sound = work / "sound.m4a"
        self._errors = work / "ffmpeg.log"
        self._encoder: subprocess.Popen[bytes] | None = None

    def begin(self, rate: int) -> None:
        """Starts the encoder, for sound of this sample rate."""
        source = ["-f", "s16le", "-ar", str(rate), "-ac", "1", "-i", "pipe:0"]
        resampled = ["-ar", str(self._rate)] if self._rate else []
        with self._errors.open("wb") as errors:
            self._encoder = subprocess.Popen(
                [self._program, "-v", "error", "-nostdin", "-y", *source, "-map_metadata", "-1", "-c:a", "aac",
                 "-b:a", BITRATE, *resampled, "-f", "mp4", f"file:{self._sound}"],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors,
                start_new_session=True,  # an interrupt from the keyboard is for us
            )  # fmt: skip

    def write(self, samples: np.ndarray) -> None:
        require_finite(samples)
        assert self._encoder is not None and self._encoder.stdin is not None
        try:
            self._encoder.stdin.write(to_int16(samples).tobytes())
        except OSError:
            raise self._failed() from None

    def finish(self) -> None:
        self._complete()
        self._target.put_in_place()
        self.discard()

    def _complete(self) -> None:
        """The whole file under its temporary name."""
        assert self._encoder is not None and self._encoder.stdin is not None
        try:
            self._encoder.stdin.close()
        except OSError:
            raise self._failed() from None
        if self._encoder.wait():
            raise self._failed()
        self._encoder = None
        assert self._target.temporary is not None
        self._mux(self._target.temporary)

    def _mux(self, output: Path) -> None:
        """The encoded sound with chapters, tags and cover, into the target's temporary file."""
        about = self._work / "metadata.txt"
        about.write_text(metadata(self._marks), "utf-8")
        inputs, maps = [f"file:{self._sound}", f"file:{about}"], ["-map", "0:a"]
        if self._marks.cover is not None:
            cover = self._work / "cover"
            cover.write_bytes(self._marks.cover)
            inputs.append(f"file:{cover}")
            maps += ["-map", "2:v", "-disposition:v:0", "attached_pic"]
        given = [part for name in inputs for part in ("-i", name)]
        command = [self._program, "-v", "error", "-nostdin", "-y", *given, *maps, "-map_metadata", "1",
                   "-map_chapters", "1", "-c", "copy", "-movflags", "+faststart", "-f", "mp4",
                   f"file:{output}"]  # fmt: skip
        with self._errors.open("wb") as errors:
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=errors, timeout=MUX_S, check=False)
        if done.returncode:
            raise self._failed()

    def _failed(self) -> OutputError:
        said = self._errors.read_text("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
        return OutputError(
            f"ffmpeg could not write {self._name}", cause="; ".join(said)[:300] or "it gave no reason",
            hint="df -h   shows the free space; -o book.opus needs no ffmpeg",
        )  # fmt: skip

    def interrupt(self) -> Path | None:
        """Finished speech stays in the cache; the incomplete file is removed."""
        self.discard()
        return None

    def discard(self) -> None:
        self._stop()
        self._target.remove()

    def _stop(self) -> None:
        if self._encoder is not None:
            self._encoder.kill()
            if self._encoder.stdin is not None:
                try:
                    self._encoder.stdin.close()
                except OSError:
                    pass
            self._encoder.wait()
            self._encoder = None


class M4aSink(M4bSink):
    """AAC without chapters. After Ctrl-C the finished sentences are kept, as in every other format."""

    def __init__(
        self, path: Path, source_rate: int, rate: int, marks: Marks | None = None, *, no_clobber: bool = False
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="omnitts-")
        self._source_rate = source_rate
        try:
            super().__init__(path, Path(self._folder.name), marks or Marks(), no_clobber=no_clobber)
        except BaseException:
            self._folder.cleanup()
            raise
        self._rate = rate

    @property
    def unwritten(self) -> Path | None:
        return self._target.path if self._target.temporary is not None else None

    def write(self, samples: np.ndarray) -> None:
        self._begun()
        super().write(samples)

    def finish(self) -> None:
        self._begun()
        super().finish()

    def _begun(self) -> None:
        if self._encoder is None:
            self.begin(self._source_rate)

    def interrupt(self) -> Path | None:
        if not self.sentences or self._encoder is None:
            self.discard()
            return None
        self._complete()
        kept = self._target.keep_partial()
        self.discard()
        return kept

    def discard(self) -> None:
        super().discard()
        self._folder.cleanup()


def chapter_rows(chapters: Sequence[Mark]) -> list[Mapping[str, object]]:
    """The chapters as they stand in `--json`."""
    return [
        {"chapter": one.number, "title": one.title, "start": round(one.start_s, 3), "end": round(one.end_s, 3),
         "units": one.units, "spoken": one.spoken}
        for one in chapters
    ]  # fmt: skip
