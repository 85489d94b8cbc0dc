"""RayWorker: an engine in a process of its own that speaks leases of rows, with its own journal.

Ray starts it, and starts it again when it dies. Sound goes from here to the output folder; a lease gets numbers back.
"""

import os
import platform
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from omnitts_cli.audio.outlet import make_folder
from omnitts_cli.errors import DeviceError, Notice, OmniError, OutputError
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.job import BatchJob, PlannedModel, bits_of
from omnitts_cli.fleet.run import BatchRun, CorpusRun
from omnitts_cli.fleet.store import PARTS, Made
from omnitts_cli.speech.tts import load

CELL = 4  # bytes of a row that is under way
DIED = 70  # exit status of a worker whose device has failed


@dataclass(frozen=True)
class Task:
    """What all workers of a run get."""

    kind: type[BatchJob]
    job: dict[str, Any]  # its fields
    plan: Any  # what Job.sent gives
    model: PlannedModel
    masks: Sequence[np.ndarray]  # of all models
    out: Path
    work: Path
    folder: Path  # where the command was given: paths in options begin there
    token: str


@dataclass
class Counts:
    """What became of a lease."""

    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))  # state, seconds and expected seconds of each
    notices: list[Notice] = field(default_factory=list)
    failure: OmniError | None = None  # the run cannot go on


class Feed:
    """The rows to speak, as leases bring them. Rows under way are also noted in a file, for when this process dies."""

    def __init__(self, path: Path) -> None:
        self._rows: SimpleQueue[int | None] = SimpleQueue()
        self._file = disk.open_file(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._cells: dict[int, int] = {}  # row -> its place in the file
        self._free: list[int] = []
        self._lock = threading.Lock()

    def put(self, row: int | None) -> None:
        """One more row; None: no more."""
        self._rows.put(row)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        row = self._rows.get()
        if row is None:
            self._rows.put(None)  # for the other threads
            raise StopIteration
        with self._lock:
            cell = self._cells[row] = self._free.pop() if self._free else len(self._cells)
        os.pwrite(self._file, (row + 1).to_bytes(CELL, "little"), cell * CELL)
        return row

    def committed(self, row: int) -> None:
        with self._lock:
            cell = self._cells.pop(row)
            self._free.append(cell)
        os.pwrite(self._file, bytes(CELL), cell * CELL)


def under_way(path: Path) -> list[int]:
    """The rows that a dead worker was speaking."""
    try:
        cells = np.frombuffer(path.read_bytes()[: path.stat().st_size // CELL * CELL], "<u4")
    except OSError:
        return []
    return [int(cell) - 1 for cell in cells if cell]


@dataclass(kw_only=True)
class LeasedRows(CorpusRun):
    """Rows that come from leases. They are committed only while the folder still belongs to their run."""

    worker: "RayWorker"

    def commit(self, group: Sequence[Made]) -> None:
        with self.worker.lock:
            self.worker.check_owner()
            super().commit(group)
        self.worker.committed(group)


class RayWorker:
    """Opens an engine, and speaks leases until its process ends. The methods may be called from several threads."""

    def __init__(self, task: Task, number: int) -> None:
        self.name = f"w{number}-{secrets.token_hex(4)}"
        self._task, self._notices = task, list[Notice]()
        self._changed, self.lock = threading.Condition(), threading.Lock()  # `lock`: of what commits
        self._counts: dict[int, tuple[int, float, float] | None] = {}  # row -> None, or state, seconds, expected
        self._tries: dict[int, int] = {}
        self._failure: OmniError | None = None
        self._doing, self._bits = Path(), ""
        self._closing = ExitStack()
        try:
            self._open()
        except OmniError as error:
            self._failure = error
            self._closing.close()

    def _open(self) -> None:
        task = self._task
        self._job = job = task.kind(**task.job, tell=self._notices.append)
        try:
            job.enter(task.folder)
            self.check_owner()
        except OSError:
            raise OutputError(
                f"{platform.node()} does not see {task.work.parent}",
                hint="--ray needs folders that all machines share: the output folder, and that of the command",
            ) from None
        work = job.worker_folder(task.work, self.name, task.token)
        make_folder(work / PARTS)
        plan = job.received(task.plan, work)
        journal = job.worker_journal(work, self.name, task.token)
        self._closing.callback(journal.close)
        tts = self._closing.enter_context(
            load(
                task.model.name,
                variant=task.model.variant,
                voice=task.model.voice,
                **{**job.machine, "slots": job.slots(task.model)},
            )
        )
        speaker = job.speaker(tts, plan, work, task.model, self._closing)
        self._bits = bits_of(tts)
        store = self._closing.enter_context(closing(job.store(task.out, work, journal, None)))
        self._rows = LeasedRows(work, plan, task.masks, journal, store, worker=self)
        run = BatchRun(self._rows, speaker, lambda pace: None)
        self._doing = work / f"doing-{self.name}"
        self._feed = Feed(self._doing)
        most = tts.engine.plan.slots
        self._thread = threading.Thread(target=self._speak, args=(run, 4 * most), name="omnitts rows", daemon=True)
        self._thread.start()

    def _speak(self, run: BatchRun, most: int) -> None:
        try:
            run.speak_in_order(self._feed, self._tries, most)
            self._rows.store.finish()
        except DeviceError:
            os._exit(DIED)  # a new process has a new device context
        except (OmniError, OSError) as error:
            failure = error if isinstance(error, OmniError) else disk.failed(error, self._task.out)
            with self._changed:
                self._failure = failure
                self._changed.notify_all()

    def check_owner(self) -> None:
        """A run whose driver died has lost the folder to the next run."""
        if self._job.token(self._task.work) != self._task.token:
            raise OutputError(f"{self._task.out} belongs to another run now", hint="omnitts help fleet")

    def committed(self, group: Sequence[Made]) -> None:
        """Rows are in the journal."""
        with self._changed:
            for made in group:
                self._counts[made.index] = made.state, made.seconds, made.expected
                self._feed.committed(made.index)
            self._changed.notify_all()

    # ---- called through Ray

    def ready(self) -> tuple[Path, str, OmniError | None]:
        """Where the rows under way are noted, the device's fingerprint, and what went wrong at the start."""
        return self._doing, self._bits, self._failure

    def speak(self, rows: np.ndarray, tries: dict[int, int]) -> Counts:
        """Speaks rows, and returns when all of them are committed."""
        with self._changed:
            self._tries.update(tries)
            for row in map(int, rows):
                if row not in self._counts:
                    self._counts[row] = None
                    self._feed.put(row)
            while any(self._counts[int(row)] is None for row in rows):
                if self._failure is not None:
                    return Counts(failure=self._failure)
                self._changed.wait(1.0)
            notices = self._notices[:]
            del self._notices[:]
            return Counts(np.array([self._counts[int(row)] for row in rows], np.float64), notices)

    def flush(self) -> OmniError | None:
        """Commits what has been spoken, when no lease is in hand; returns what went wrong."""
        try:
            with self.lock:
                self.check_owner()
                self._rows.store.flush()
        except (OmniError, OSError) as error:
            return error if isinstance(error, OmniError) else disk.failed(error, self._task.out)
        return None

    def end(self) -> None:
        """There are no more rows: ends the last shard."""
        self._feed.put(None)
        self._thread.join()
