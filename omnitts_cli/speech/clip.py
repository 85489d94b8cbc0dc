"""Chunk and Clip: what TTS returns, streamed and complete."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import BinaryIO, overload

import numpy as np

from omnitts_cli.audio.encode import FORMATS, choose_format, unknown_suffix
from omnitts_cli.audio.outlet import Outlet
from omnitts_cli.audio.sinks import FileSink, Track
from omnitts_cli.errors import Notice, UsageError
from omnitts_cli.text.subtitles import Sentence


@dataclass(frozen=True, eq=False)
class Chunk:
    """Samples, ready to play. The last chunk of a sentence has `sentence` set, and may have no samples."""

    samples: np.ndarray  # [samples] float32
    sample_rate: int
    sentence: Sentence | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Clip:
    """Complete speech, the concatenation of its stream. The same text, voice and seed reproduce it."""

    samples: np.ndarray  # [samples] float32
    sample_rate: int
    seed: int
    sentences: tuple[Sentence, ...] = ()
    notices: tuple[Notice, ...] = ()
    codes: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))  # [frames, groups]

    def __repr__(self) -> str:
        sentences = f"{len(self.sentences)} sentence{'s' * (len(self.sentences) != 1)}"
        return f"<Clip: {self.seconds:.2f} s at {self.sample_rate} Hz, {sentences}, seed {self.seed}>"

    def _repr_html_(self) -> str:
        """Returns a player, which notebooks show for a clip on the last line of a cell."""
        from base64 import b64encode

        data = b64encode(self.encode("flac")).decode()
        return f'<audio controls src="data:audio/flac;base64,{data}"></audio>'

    @property
    def seconds(self) -> float:
        """Returns its length in seconds."""
        return self.samples.size / self.sample_rate

    @overload
    def save(
        self, path: str | PathLike[str], *, format: str | None = None, sample_rate: int | None = None,
        subtype: str = "pcm16",
    ) -> Path: ...  # fmt: skip

    @overload
    def save(
        self, path: BinaryIO, *, format: str | None = None, sample_rate: int | None = None, subtype: str = "pcm16"
    ) -> None: ...

    def save(
        self,
        path: str | PathLike[str] | BinaryIO,
        *,
        format: str | None = None,
        sample_rate: int | None = None,
        subtype: str = "pcm16",
    ) -> Path | None:
        """Writes a sound file, complete or not at all, and returns its path. The suffix decides the format.

        To an open file, it writes the format that is given, WAV otherwise, and returns None.
        """
        if not isinstance(path, str | PathLike):
            form = choose_format(None, format, model_rate=self.sample_rate, rate=sample_rate, subtype=subtype)
            track = Track(Outlet(path, "the open file"), form, self.sample_rate)
            track.write(self.samples)
            track.close()
            return None
        path = Path(path)
        if suffix := unknown_suffix(path.name, format):
            known = ", ".join(FORMATS)
            raise UsageError(f"{path.name}: {suffix} is not a known audio format", hint=f"format= one of {known}")
        form = choose_format(str(path), format, model_rate=self.sample_rate, rate=sample_rate, subtype=subtype)
        with FileSink(path, form, self.sample_rate) as sink:
            sink.write(self.samples)
            sink.finish()
        return path

    def encode(self, format: str = "wav", *, sample_rate: int | None = None, subtype: str = "pcm16") -> bytes:
        """Returns the bytes of a sound file."""
        file = BytesIO()
        self.save(file, format=format, sample_rate=sample_rate, subtype=subtype)
        return file.getvalue()


def join(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Returns all samples as one array."""
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)
