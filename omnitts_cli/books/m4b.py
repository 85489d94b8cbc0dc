"""M4bSink: an audiobook: AAC, chapter marks, cover, tags. Nothing is held in memory.

Sound is encoded into a file while speech is made; chapters are known at the end, so the encoded sound is then copied
into the final file together with them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from omnitts_cli.audio import aac, pyav
from omnitts_cli.audio.encode import SoundFormat
from omnitts_cli.audio.pyav import MediaError
from omnitts_cli.audio.sinks import Sink
from omnitts_cli.audio.target import open_target
from omnitts_cli.books.aac import mux
from omnitts_cli.books.marks import Mark, Marks
from omnitts_cli.errors import DeviceError, InputError, OutputError
from omnitts_cli.text.formats.epub import LARGEST_COVER, PICTURES

SUFFIX = ".m4b"
BIT_RATE = 64_000


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


class M4bSink(Sink):
    """The file, complete or not at all. `marks` is filled in before `finish`; `work` is for temporary files."""

    def __init__(self, path: Path, work: Path, marks: Marks, *, no_clobber: bool = False) -> None:
        super().__init__()
        if not aac.installed():
            raise DeviceError(
                f"{path} needs ffmpeg or PyAV, and neither is installed",
                hint=f"{pyav.INSTALL}   or   sudo apt install ffmpeg   or   -o {path.with_suffix('.opus')}, "
                "which needs none",
            )
        self._writer: aac.AacEncoder | None = None  # while sound is encoded
        self._marks, self._sound = marks, work / "sound.m4a"
        self._target = open_target(path, no_clobber=no_clobber)
        self._name = str(path)
        if self._target.temporary is None:
            self._target.remove()
            raise OutputError(
                f"cannot write {path}: an {path.suffix or SUFFIX} file cannot go into a pipe", hint="-o book.m4b"
            )
        self._rate: int | None = None  # of the file, if it is not that of the sound
        self._bit_rate = BIT_RATE

    def begin(self, rate: int) -> None:
        """Starts the encoder, for sound of this sample rate."""
        with self._reported():
            self._writer = aac.writer(self._sound, rate, self._rate or rate, self._bit_rate)

    def write(self, samples: np.ndarray) -> None:
        assert self._writer is not None
        with self._reported():
            self._writer.write(samples)

    def finish(self) -> None:
        self._complete()
        self._target.put_in_place()
        self.discard()

    def _complete(self) -> None:
        """The whole file under its temporary name."""
        assert self._target.temporary is not None and self._writer is not None
        program, marks = aac.ffmpeg(), self._marks
        with self._reported():
            self._writer.close()
            self._writer = None
            if program is not None:
                mux(program, self._sound, marks, self._target.temporary)
                return
            chapters = [(one.title, one.start_s, one.end_s) for one in marks.chapters]
            pyav.remux(self._sound, self._target.temporary, marks.tags, chapters, marks.cover)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """A failure of the encoder as an error for the user."""
        try:
            yield
        except MediaError as error:
            raise OutputError(
                f"{'ffmpeg' if aac.ffmpeg() else 'PyAV'} could not write {self._name}", cause=str(error),
                hint="df -h   shows the free space; -o book.opus needs no other program",
            ) from None  # fmt: skip

    def interrupt(self) -> Path | None:
        """Finished speech stays in the cache; the incomplete file is removed."""
        self.discard()
        return None

    def discard(self) -> None:
        if self._writer is not None:
            self._writer.discard()
            self._writer = None
        self._target.remove()


class M4aSink(M4bSink):
    """AAC without chapters. After Ctrl-C the finished sentences are kept, as in every other format."""

    def __init__(
        self, path: Path, source_rate: int, form: SoundFormat, marks: Marks | None = None, *, no_clobber: bool = False
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="omnitts-")
        self._source_rate = source_rate
        try:
            super().__init__(path, Path(self._folder.name), marks or Marks(), no_clobber=no_clobber)
        except BaseException:
            self._folder.cleanup()
            raise
        self._rate = form.rate
        self._bit_rate = 1000 * form.bitrate if form.bitrate else BIT_RATE

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
        if self._writer is None:
            self.begin(self._source_rate)

    def interrupt(self) -> Path | None:
        if not self.sentences or self._writer is None:
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
