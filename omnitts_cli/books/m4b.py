"""M4bSink: an audiobook: AAC, chapter marks, cover, tags. Nothing is held in memory.

Sound is encoded into a file while speech is made; chapters are known at the end, so the encoded sound is then copied
into the final file together with them.
"""

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
    """The file, complete or not at all. `marks` is filled in before `finish`; None: a file without chapters. `work` is
    for temporary files. After Ctrl-C the finished sentences are kept, as in every other format.
    """

    def __init__(
        self, path: Path, rate: int, form: SoundFormat, marks: Marks | None = None, work: Path | None = None, *,
        no_clobber: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if not aac.installed():
            raise DeviceError(
                f"{path} needs ffmpeg or PyAV, and neither is installed",
                hint=f"{pyav.INSTALL}   or   sudo apt install ffmpeg   or   -o {path.with_suffix('.opus')}, "
                "which needs none",
            )
        self._writer: aac.AacEncoder | None = None  # while sound is encoded
        self._rate, self._form, self._marks, self._name = rate, form, marks or Marks(), str(path)
        self._target = open_target(path, no_clobber=no_clobber)
        if self._target.temporary is None:
            self._target.remove()
            raise OutputError(
                f"cannot write {path}: an {path.suffix or SUFFIX} file cannot go into a pipe", hint="-o book.m4b"
            )
        self._work, self._folder = work, None

    _folder: tempfile.TemporaryDirectory[str] | None  # of the sound, from its beginning on

    @property
    def unwritten(self) -> Path | None:
        return self._target.path if self._target.temporary is not None else None

    def _begun(self) -> aac.AacEncoder:
        if self._writer is None:
            self._folder = tempfile.TemporaryDirectory(prefix="omnitts-", dir=self._work)
            self._sound = Path(self._folder.name, "sound.m4a")
            bit_rate = 1000 * self._form.bitrate if self._form.bitrate else BIT_RATE
            self._writer = aac.writer(self._sound, self._rate, self._form.rate, bit_rate)
        return self._writer

    def write(self, samples: np.ndarray) -> None:
        with self._reported():
            self._begun().write(samples)

    def finish(self) -> None:
        self._complete()
        self._target.put_in_place()
        self.discard()

    def _complete(self) -> None:
        """The whole file under its temporary name."""
        assert self._target.temporary is not None
        program, marks = aac.ffmpeg(), self._marks
        with self._reported():
            self._begun().close()
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
        if not self.sentences or self._writer is None:
            self.discard()
            return None
        self._complete()
        kept = self._target.keep_partial()
        self.discard()
        return kept

    def discard(self) -> None:
        if self._writer is not None:
            self._writer.discard()
            self._writer = None
        self._target.remove()
        if self._folder is not None:
            self._folder.cleanup()


def chapter_rows(chapters: Sequence[Mark]) -> list[Mapping[str, object]]:
    """The chapters as they stand in `--json`."""
    return [
        {"chapter": one.number, "title": one.title, "start": round(one.start_s, 3), "end": round(one.end_s, 3),
         "units": one.units, "spoken": one.spoken}
        for one in chapters
    ]  # fmt: skip
