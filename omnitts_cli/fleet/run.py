"""CorpusRun: the rows of a plan, what is left to do of them, and how they become part of the corpus. BatchRun: speaks
them. Rows share the engine's slots; threads beside it read, encode and write.

Longest rows go first, within windows of the manifest, so that batches are full, the end is short and memory bounded.
The main thread commits finished rows in groups. After a kill, at most one group is spoken again.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from omnitts_cli.errors import DeviceError, OmniError, OutputError
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.journal import FAILED, UNVERIFIED, Entry, Lookup, RowJournal
from omnitts_cli.fleet.plan import BAD, RowPlan
from omnitts_cli.fleet.rows import Row, RowError
from omnitts_cli.fleet.runner import Runner
from omnitts_cli.fleet.speaker import RowSpeaker
from omnitts_cli.fleet.store import PARTS, Made, Store, sha8
from omnitts_cli.terminal.signals import held

WINDOW = 20_000
MOST_OPEN = 256
WAITING = 64  # rows beyond the engine's slots: prepared for it, or being written
GROUP, GROUP_S = 32, 1.0  # rows committed together; the longest wait for others
MOST_UNCOMMITTED = 64
POLL_S = 0.2


@dataclass
class Pace:
    """Progress of a run, for the progress line and the report."""

    rows: int = 0  # to speak in this run
    expected_s: float = 0.0  # of speech, estimated from their texts
    done: int = 0
    failed: int = 0
    unverified: int = 0
    copied: int = 0
    audio_s: float = 0.0
    expected_done_s: float = 0.0
    began: float = 0.0
    ended: float = 0.0  # 0 while it runs
    curve: list[tuple[float, float]] = field(default_factory=list)  # (seconds since the beginning, audio seconds)
    full: tuple[float, float] | None = None  # the same when the last row was assigned; the rest of the run is the tail

    def begin(self) -> None:
        """The model is loaded; the first call starts the clock."""
        self.began = self.began or time.perf_counter()

    def add(self, made: Made) -> None:
        self.done += 1
        self.failed += made.state == FAILED
        self.unverified += made.state == UNVERIFIED
        self.audio_s += made.seconds
        self.expected_done_s += made.expected

    @property
    def wall_s(self) -> float:
        return max((self.ended or time.perf_counter()) - self.began, 1e-9)

    def end(self) -> None:
        """Everything is spoken; the report and the last line of the command have the same time."""
        self.ended = time.perf_counter()

    @property
    def eta_s(self) -> float | None:
        """Estimated from the texts that are left, and from the speech per text so far."""
        if not self.audio_s or not self.expected_done_s or self.wall_s < 1.0:
            return None
        left = max(self.expected_s - self.expected_done_s, 0.0) * self.audio_s / self.expected_done_s
        return left * self.wall_s / self.audio_s

    def mark(self) -> None:
        """A point of the curve; at most a few hundred are kept."""
        self.curve.append((round(self.wall_s, 3), round(self.audio_s, 3)))
        if len(self.curve) > 800:
            del self.curve[1::2]


Look = Callable[[Pace], None]


@dataclass(frozen=True)
class Pending:
    """What is left to do of a plan."""

    speak: np.ndarray  # indexes of rows to speak
    copy: np.ndarray  # indexes of rows whose sound exists under another name
    later: np.ndarray  # indexes of rows with the content of one in `speak`
    tries: dict[int, int]  # of rows that are tried again, how often they were tried
    changed: int  # of `speak` and `later`, those that were spoken with another text, voice, model or option


@dataclass
class CorpusRun:
    """A run over a plan: where it keeps what, and how far it is. `masks`: of the plan's models."""

    work: Path
    plan: RowPlan
    masks: Sequence[np.ndarray]
    journal: RowJournal
    store: Store
    pace: Pace = field(default_factory=Pace)

    def key(self, index: int) -> tuple[int, int]:
        """The key of a row, with its model."""
        key = self.plan.rows["key"][index] ^ self.masks[int(self.plan.rows["model"][index])]
        return int(key[0]), int(key[1])

    @property
    def keys(self) -> np.ndarray:
        """The keys of all rows, with their models."""
        table = np.array([*self.masks, (0, 0)], np.uint64)  # bad rows have model 0, also where no row has one
        return self.plan.rows["key"] ^ table[self.plan.rows["model"]]

    def failed(self, index: int, row: Row | None, code: str, message: str, tries: int = 1) -> Made:
        """A row that could not be spoken; None: it could not be read."""
        id, output = (row.id, self.plan.output(index, row.id)) if row else ("", "")
        details = {"code": code, "message": message, "tries": tries}
        return Made(index, id, output, self.key(index), FAILED, details)

    def commit(self, group: Sequence[Made]) -> None:
        """A group of finished rows becomes part of the corpus."""
        self.store.place(group)
        self.journal.append([self._entry(made) for made in group])

    def _entry(self, made: Made) -> Entry:
        return Entry(
            key=made.key,
            name=int(self.plan.rows["name"][made.index]),
            row=made.index,
            state=made.state,
            details=json.dumps({"output": made.output, **made.details}, ensure_ascii=False, allow_nan=False).encode(),
            sha=int.from_bytes(bytes.fromhex(made.sha256)[:8], "little") if made.sha256 else 0,
            shard=made.shard,
            offset=made.offset,
            length=made.length,
        )

    def pending(self, lookup: Lookup, *, retry_failed: bool, keep: np.ndarray | None) -> Pending:
        """The rows that are not done yet. `keep`: limits them to these indexes."""
        rows, keys = self.plan.rows, self.keys
        records = lookup.of_names(rows["name"])
        at = np.flatnonzero(records >= 0)
        same = (lookup.records["key"][records[at]] == keys[at]).all(1)
        records[at[~same]] = -1
        changed = at[~same]
        present = self.store.present(self.plan, lookup, records)
        state = np.zeros(len(rows), np.uint8)
        state[present] = lookup.records["state"][records[present]]
        bad = (rows["state"] & BAD) != 0
        again = (state == FAILED) | (state == UNVERIFIED) if retry_failed else np.zeros(len(rows), bool)
        wanted = ~bad & (~present | again)
        if keep is not None:
            chosen = np.zeros(len(rows), bool)
            chosen[keep] = True
            wanted &= chosen
        details = {int(i): json.loads(lookup.details(int(records[i]))) for i in np.flatnonzero(again & wanted)}
        tries = {index: int(found.get("tries", 1)) for index, found in details.items()}
        left = np.flatnonzero(wanted)
        copies = left[lookup.has_keys(keys[left]) & ~again[left]]
        left = left[~np.isin(left, copies, assume_unique=True)] if len(copies) else left
        order = np.lexsort((left, keys[left, 1], keys[left, 0]))
        ordered = keys[left[order]]
        twin = np.zeros(len(left), bool)
        twin[order[1:]] = (ordered[1:] == ordered[:-1]).all(1)
        return Pending(left[~twin], copies, left[twin], tries, int(np.isin(left, changed).sum()))

    def copy(self, rows: np.ndarray, *, codes: bool) -> np.ndarray:
        """Gives rows the sound that exists under another name, with `codes` also its codes; returns those whose sound
        could not be read.
        """
        missing, group = [], list[Made]()
        if not len(rows):
            return rows
        with Lookup(self.work) as lookup:
            for index in map(int, rows):
                made = self._copied(index, lookup, codes)
                if made is None:
                    missing.append(index)
                    continue
                group.append(made)
                self.pace.copied += 1
                if len(group) == GROUP:
                    self.commit(group)
                    group = []
            if group:
                self.commit(group)
        return np.array(missing, np.int64)

    def _copied(self, index: int, lookup: Lookup, codes: bool) -> Made | None:
        """A row with the sound of another; None if there is none."""
        key = self.key(index)
        record = lookup.with_key(np.array(key, np.uint64))
        if record < 0 or int(lookup.records["name"][record]) == int(self.plan.rows["name"][index]):
            return None
        details = json.loads(lookup.details(record))
        output = details.pop("output")
        sound, found = self.store.sound(lookup.records[record], output), self.store.codes(output) if codes else None
        if sound is None or (codes and found is None):
            return None
        row, part = self.plan.row(index), self.work / PARTS / f"copy-{index}"
        disk.put(part, sound)
        assert sha8(sound) == int(lookup.records["sha"][record])
        return Made(
            index, row.id, self.plan.output(index, row.id), key, int(lookup.records["state"][record]), details,
            part, str(details["sha256"]), len(sound), row.text, codes=found,
        )  # fmt: skip


class BatchRun:
    """One run over the rows of one model."""

    def __init__(self, run: CorpusRun, speaker: RowSpeaker, look: Look) -> None:
        self.run, self.speaker, self._look = run, speaker, look
        self._room = threading.Semaphore(MOST_UNCOMMITTED)
        self._group: list[Made] = []

    def speak(self, rows: np.ndarray, tries: dict[int, int]) -> None:
        """Speaks the rows of these indexes. `tries`: how often some of them were tried before."""
        self.speak_in_order(in_order(self.run.plan, rows), tries, len(rows))

    def speak_in_order(self, order: Iterator[int], tries: dict[int, int], most: int) -> None:
        """The same, in the order given; `most` limits the number of threads."""
        threads = min(MOST_OPEN, self.speaker.slots + WAITING, max(most, 1))

        def speak(index: int) -> Made:
            made = self._made(index, tries.get(index, 0))
            self._room.acquire()
            return made

        with Runner(self.speaker.streams, lambda: self._next(order), speak, threads, "row") as runner:
            try:
                self._collect(runner)
            except BaseException:
                self._room.release(threads)  # none of them waits for a commit now
                runner.stop()
                with held(), suppress(OmniError, OSError):
                    self._group += runner.rest()
                    self._commit()
                raise

    # ---- in the threads of rows

    def _next(self, order: Iterator[int]) -> int | None:
        index = next(order, None)
        pace = self.run.pace
        if index is None and pace.full is None:
            pace.full = (pace.wall_s, pace.audio_s)
        return index

    def _made(self, index: int, first_try: int) -> Made:
        plan, row = self.run.plan, None
        try:
            row = plan.row(index)
            made = self.speaker.speak(index, row, plan.keys.of(row)[1], first_try)
            made.key, made.output = self.run.key(index), plan.output(index, row.id)
        except (DeviceError, OutputError):
            raise
        except (RowError, OmniError) as error:
            made = self.run.failed(index, row, error.code, error.message, first_try + 1)
        made.expected = float(plan.rows["expected"][index])
        return made

    # ---- in the main thread

    def _collect(self, runner: Runner[int, Made]) -> None:
        """Commits finished rows in groups until all threads have ended."""
        began = 0.0
        while runner.left or self._group:
            wait = POLL_S if not self._group else max(GROUP_S - (time.perf_counter() - began), 0.0)
            found = runner.next(min(wait, POLL_S)) if runner.left else None
            if found is not None:
                began = began if self._group else time.perf_counter()
                self._group.append(found)
            waited = time.perf_counter() - began >= GROUP_S
            if self._group and (len(self._group) >= GROUP or waited or not runner.left):
                with held():
                    self._commit()
            self._look(self.run.pace)

    def _commit(self) -> None:
        """Puts the sound of a group in place, and then its records into the journal."""
        group, self._group = self._group, []
        if not group:
            return
        try:
            self.run.commit(group)
        finally:
            self._room.release(len(group))
        for made in group:
            self.run.pace.add(made)
        self.run.pace.mark()


def in_order(plan: RowPlan, rows: np.ndarray) -> Iterator[int]:
    """Row indexes, the longest first within each window of the manifest."""
    for start in range(0, len(rows), WINDOW):
        window = rows[start : start + WINDOW]
        longest_first = np.argsort(-plan.rows["expected"][window], kind="stable")
        yield from window[longest_first].tolist()
