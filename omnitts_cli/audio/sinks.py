"""Sinks: where sound goes. Each takes mono float32 at the model's rate, in blocks of any size.

All have the same life cycle: `write` and `sentence_done` in turn, then one of `finish` (everything asked
for has arrived), `interrupt` (keep what is finished) or `discard` (leave no trace). As a context
manager a sink that was not finished discards itself.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from omnitts_cli.audio.encode import Encoder, SoundFormat, open_encoder
from omnitts_cli.audio.outlet import Outlet, RawFile
from omnitts_cli.audio.pcm import require_finite
from omnitts_cli.audio.resample import Resampler
from omnitts_cli.audio.target import OutputTarget, is_special, open_target
from omnitts_cli.errors import DeviceError, OmniError, UsageError


class Sink:
    """A place for sound. `notices`: messages for the user, collected while writing."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.sentences = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    @property
    def unwritten(self) -> Path | None:
        """The file that `finish` will put in place. None after that, and for outputs that are written directly."""
        return None

    def write(self, samples: np.ndarray) -> None:
        """Takes a block of mono float32 at the model's rate; raises GuardError for NaN or Inf."""
        raise NotImplementedError

    def sentence_done(self) -> None:
        """Marks that everything written so far is a whole number of sentences."""
        self.sentences += 1

    def finish(self) -> None:
        """Closes the target and puts it in place."""
        raise NotImplementedError

    def interrupt(self) -> Path | None:
        """Closes early and keeps finished sentences; returns the path of the kept file, if any."""
        raise NotImplementedError

    def discard(self) -> None:
        """Closes and leaves no trace. Safe to call at any time, also twice."""
        raise NotImplementedError


class Track:
    """Finite check, resampling and encoding in front of an outlet."""

    def __init__(self, outlet: Outlet, form: SoundFormat, source_rate: int) -> None:
        self._resampler = Resampler(source_rate, form.rate)
        self.encoder: Encoder = open_encoder(outlet, form)

    def write(self, samples: np.ndarray) -> None:
        require_finite(samples)
        self.encoder.write(self._resampler.feed(samples))

    def close(self) -> None:
        rest = self._resampler.flush()
        if rest.size:
            self.encoder.write(rest)
        self.encoder.close()


class FileSink(Sink):
    """A file. A regular one appears whole, in one step, at `finish`; anything else is written in place, from the first
    sound on.

    Everything that can be wrong with a regular file is found by making the sink, before a model is loaded.
    """

    def __init__(
        self, path: str | os.PathLike[str], form: SoundFormat, source_rate: int = 24_000, *, no_clobber: bool = False
    ) -> None:
        super().__init__()
        self.notices.extend(form.notices)
        self._target: OutputTarget | None = None
        self._track: Track | None = None
        self._path, self._form, self._rate, self._no_clobber = Path(path), form, source_rate, no_clobber
        if not is_special(path):
            self._track = self._begin()

    def _begin(self) -> Track:
        self._target = open_target(self._path, no_clobber=self._no_clobber)
        try:
            return Track(Outlet(self._target.file, str(self._path)), self._form, self._rate)
        except BaseException:
            self.discard()
            raise

    @property
    def unwritten(self) -> Path | None:
        return self._target.path if self._target is not None and self._target.temporary is not None else None

    def write(self, samples: np.ndarray) -> None:
        self._track = self._track or self._begin()
        self._track.write(samples)

    def finish(self) -> None:
        self._track = self._track or self._begin()
        target = self._open()
        self._close_track()
        try:
            target.put_in_place()
        except OmniError:  # the file was removed, or kept under another name
            self._target = None
            raise
        self._target = None

    def interrupt(self) -> Path | None:
        """After Ctrl-C: NAME.partial.SUFFIX with what was written, if a sentence was finished; else nothing."""
        target = self._target
        if target is None or not self.sentences:
            self.discard()
            return None
        if not target.file.closed:  # it is if the signal came between closing and renaming
            self._close_track()
        self._target = None
        return target.keep_partial()

    def discard(self) -> None:
        if self._target is not None:
            self._target.remove()
            self._target = None

    def _close_track(self) -> None:
        assert self._track is not None
        self._track.close()
        if self._track.encoder.notice:
            self.notices.append(self._track.encoder.notice)

    def _open(self) -> OutputTarget:
        assert self._target is not None, "this sink was closed before"
        return self._target


FIRST_BYTES = 512
"""sox finds the format in the first read of a pipe, which has to have 256 bytes: more than most headers."""


class PipeSink(Sink):
    """Standard output, or any open file: a pipe, a socket, a file object. Every block leaves at once.

    The header leaves together with the first sound.
    The caller keeps the file. BrokenPipeError passes through: it becomes an exit code, not an error.
    """

    def __init__(
        self, file: RawFile | BinaryIO, form: SoundFormat, source_rate: int = 24_000, *, name: str = "standard output"
    ) -> None:
        super().__init__()
        refuse_terminal(file)
        self.notices.extend(form.notices)
        self._file, self._outlet = file, Outlet(file, name)
        self._outlet.hold()
        self._track: Track | None = Track(self._outlet, form, source_rate)

    def write(self, samples: np.ndarray) -> None:
        assert self._track is not None, "this sink was closed before"
        self._track.write(samples)
        self._outlet.release(FIRST_BYTES)
        self._flush()

    def finish(self) -> None:
        track, self._track = self._track, None
        assert track is not None, "this sink was closed before"
        track.close()
        self._outlet.release()
        if track.encoder.notice:
            self.notices.append(track.encoder.notice)
        self._flush()

    def interrupt(self) -> Path | None:
        """Written bytes cannot be taken back; the stream is ended properly."""
        if self._track is not None:
            self.finish()
        return None

    def discard(self) -> None:
        self._track = None

    def _flush(self) -> None:
        flush = getattr(self._file, "flush", None)
        if flush is not None:
            flush()


def refuse_terminal(file: object) -> None:
    """Audio bytes would wreck a terminal."""
    isatty = getattr(file, "isatty", None)
    if isatty is not None and isatty():
        raise UsageError(
            "refusing to write audio to the terminal",
            hint="-o speech.wav   or   -o - | ffplay -nodisp -autoexit -   or   --play",
        )


class MemorySink(Sink):
    """Keeps the sound: for the library, for codes of a voice, for tests."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[np.ndarray] = []
        self.finished = False

    @property
    def sound(self) -> np.ndarray:
        """Everything so far, [samples] float32."""
        return np.concatenate([np.zeros(0, np.float32), *self._blocks])

    def write(self, samples: np.ndarray) -> None:
        require_finite(samples)
        self._blocks.append(np.array(samples, np.float32))

    def finish(self) -> None:
        self.finished = True

    def interrupt(self) -> Path | None:
        return None

    def discard(self) -> None:
        pass


class TeeSink(Sink):
    """Several sinks at once, such as a file and the loudspeaker.

    If the loudspeaker fails half-way, the file is still written, and `finish` reports it.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        super().__init__()
        self._sinks = list(sinks)
        self._lost: DeviceError | None = None

    def write(self, samples: np.ndarray) -> None:
        for sink in list(self._sinks):
            try:
                sink.write(samples)
            except DeviceError as error:
                self._drop(sink, error)

    def _drop(self, sink: Sink, error: DeviceError) -> None:
        if len(self._sinks) == 1:
            raise error
        self._sinks.remove(sink)
        self._lost = error
        sink.discard()

    @property
    def unwritten(self) -> Path | None:
        return next(filter(None, (sink.unwritten for sink in self._sinks)), None)

    def sentence_done(self) -> None:
        super().sentence_done()
        for sink in self._sinks:
            sink.sentence_done()

    def finish(self) -> None:
        for sink in self._sinks:
            sink.finish()
            self.notices.extend(sink.notices)
        if self._lost is not None:
            raise self._lost

    def interrupt(self) -> Path | None:
        kept = [sink.interrupt() for sink in self._sinks]
        return next((path for path in kept if path is not None), None)

    def discard(self) -> None:
        for sink in self._sinks:
            sink.discard()
