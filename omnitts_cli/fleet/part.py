"""Sound files that are made, and what is measured of them. Also the processes that make such files.

A GPU needs the interpreter lock a hundred times a second for its next frame. Beside one, sound is therefore encoded,
measured and hashed in other processes.
"""

import hashlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

import numpy as np

from omnitts_cli import child
from omnitts_cli.audio.encode import SoundFormat
from omnitts_cli.audio.loudness import LoudnessSink, Meter
from omnitts_cli.audio.outlet import Outlet
from omnitts_cli.audio.pcm import dbfs
from omnitts_cli.audio.sinks import Sink, Track
from omnitts_cli.errors import OmniError, OutputError
from omnitts_cli.fleet import disk

SILENT_DBFS = -120.0
CUT_OFF = (EOFError, pickle.UnpicklingError)  # the other process has ended, maybe within a message
FEWEST_WRITERS, MOST_WRITERS, CORES_A_WRITER = 2, 8, 3


@dataclass(frozen=True)
class SoundRecipe:
    """How sound files are made. `rate` is that of the model; `sync`: a finished file is on the disk."""

    form: SoundFormat
    rate: int
    loudness: float | None = None
    sync: bool = True


@dataclass(frozen=True)
class SoundFigures:
    """What was measured of a finished file."""

    length: int
    sha256: str
    peak_dbfs: float
    lufs: float | None


class PartSink(Sink):
    """A sound file that is being made. Nothing is left of one that was discarded."""

    def __init__(self, path: Path, recipe: SoundRecipe) -> None:
        super().__init__()
        self.path, self._sync = path, recipe.sync
        self._file = disk.File(path)
        try:
            self._track = Track(Outlet(self._file, str(path)), recipe.form, recipe.rate)  # type: ignore[arg-type]
        except BaseException:
            self.discard()
            raise

    def write(self, samples: np.ndarray) -> None:
        self._track.write(samples)

    def finish(self) -> None:
        self._track.close()
        if self._sync:
            self._file.sync()
        self._file.close()

    def interrupt(self) -> Path | None:
        self.discard()
        return None

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


def make(path: Path, recipe: SoundRecipe, blocks: Iterable[np.ndarray]) -> SoundFigures:
    """A whole file, written and measured in this process."""
    meter, sink = Meter(recipe.rate), PartSink(path, recipe)
    level = None if recipe.loudness is None else LoudnessSink(sink, recipe.loudness, recipe.rate)
    out: PartSink | LoudnessSink = sink if level is None else level
    try:
        for samples in blocks:
            if level is None:
                meter.feed(samples)
            out.write(samples)
        out.finish()
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except BaseException:
        out.discard()
        raise
    reached = level.reached if level else None
    peak, lufs = (reached.peak, reached.lufs) if reached else (meter.peak, meter.lufs())
    loudest = dbfs(peak) if peak else SILENT_DBFS
    return SoundFigures(path.stat().st_size, sha256, loudest, lufs if isfinite(lufs) else None)


# ---- in other processes


def writers_beside_a_gpu() -> int:
    return min(max((os.cpu_count() or 1) // CORES_A_WRITER, FEWEST_WRITERS), MOST_WRITERS)


class Writers:
    """Processes that make sound files. Any thread may call `make`."""

    def __init__(self, count: int, recipe: SoundRecipe) -> None:
        self._sync = recipe.sync
        begin = pickle.dumps(replace(recipe, sync=False))
        command = child.command("omnitts_cli.fleet.part")
        self._free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._all: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(count):
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                self._all.append(process)
                self._send(process, begin)
                self._free.put(process)
        except BaseException:
            self.close()
            raise

    def make(self, path: Path, blocks: Sequence[np.ndarray]) -> SoundFigures:
        """A whole file. Raises what went wrong, as `make` of this module does."""
        process = self._free.get()
        try:
            self._send(process, pickle.dumps((path, sum(samples.size for samples in blocks))))
            for samples in blocks:
                self._send(process, np.ascontiguousarray(samples, np.float32))
            assert process.stdout is not None
            found: SoundFigures | Exception = pickle.load(process.stdout)
        except CUT_OFF:
            self._ended(process)
        finally:
            self._free.put(process)
        if isinstance(found, Exception):
            raise found
        if self._sync:  # here, where more threads can wait for the disk than there are writers
            disk.sync(path)
        return found

    def _send(self, process: subprocess.Popen[bytes], data: Any) -> None:
        assert process.stdin is not None
        rest = memoryview(data).cast("B")
        try:
            while rest:
                rest = rest[os.write(process.stdin.fileno(), rest) :]
        except BrokenPipeError:
            self._ended(process)

    def _ended(self, process: subprocess.Popen[bytes]) -> NoReturn:
        raise OutputError(
            f"a process that writes sound has ended (exit status {process.wait()})",
            hint="run the same command again",
        )

    def close(self) -> None:
        """Ends the processes."""
        for process in self._all:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        for process in self._all:
            process.wait()


def main() -> None:
    """One writer: files from standard input, their figures to standard output, or what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes the pipe
    take = sys.stdin.buffer
    with suppress(*CUT_OFF):  # the parent has ended, or was killed
        recipe = pickle.load(take)
        while True:
            path, size = pickle.load(take)
            data = take.read(4 * size)
            if len(data) < 4 * size:
                return
            found: SoundFigures | Exception
            try:
                found = make(path, recipe, [np.frombuffer(data, np.float32)])
            except (OmniError, OSError) as error:  # an error's cause is lost on the way
                found = error.__cause__ if isinstance(error.__cause__, OSError) else error
            pickle.dump(found, sys.stdout.buffer)
            sys.stdout.buffer.flush()
