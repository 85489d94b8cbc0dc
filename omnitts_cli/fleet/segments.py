"""Segments: the journal in an object store. Each is one object with the records and details of a group of rows.

Names sort by run, so that the latest record of a row counts. The driver's journal on the disk is a copy of all of them.
"""

import io
import secrets
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from omnitts_cli import files
from omnitts_cli.errors import OutputError
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.bucket import Bucket, owner_of
from omnitts_cli.fleet.journal import RECORD, SIZE, Entry, RowJournal, details_at, moved, packed, read

FOLDER = ".omnitts/journal"
COUNT = 4  # bytes: the number of records, before them
RUN_DIGITS = 6
READ_TOGETHER, READ_BYTES = 256, 8 << 20  # segments that are read in parallel, and their bytes
ROWS_TOGETHER = 50_000  # of a segment that takes the place of many
MANY = 64  # segments, before they are joined


def segment_of(records: np.ndarray, lines: bytes) -> bytes:
    return zlib.compress(len(records).to_bytes(COUNT, "little") + records.tobytes() + lines, 1)


def records_of(segment: bytes) -> tuple[np.ndarray, bytes]:
    """Records and details of a segment; none if it is damaged, as a store without complete writes may leave it."""
    try:
        data = zlib.decompress(segment)
    except zlib.error:
        return np.zeros(0, RECORD), b""
    count = int.from_bytes(data[:COUNT], "little")
    if len(data) < COUNT + count * SIZE:
        return np.zeros(0, RECORD), b""
    return np.frombuffer(data, RECORD, count, COUNT), data[COUNT + count * SIZE :]


def groups(sizes: dict[str, int]) -> Iterator[list[str]]:
    """Names of segments that are read together, in order."""
    names, held = list[str](), 0
    for name, size in sizes.items():
        if names and (len(names) == READ_TOGETHER or held + size > READ_BYTES):
            yield names
            names, held = [], 0
        names.append(name)
        held += size
    if names:
        yield names


def next_run(bucket: Bucket) -> int:
    """A number above those of all segments."""
    numbers = [int(name[:RUN_DIGITS]) for name in bucket.sizes(FOLDER) if name[:RUN_DIGITS].isdigit()]
    return 1 + max(numbers, default=0)


class Segments:
    """The journal of one writer. Nothing counts before `publish`, which `append` calls unless `late`.

    `token`: of the run; it publishes only while it owns the bucket.
    """

    def __init__(self, bucket: Bucket, run: int, writer: str, *, late: bool, token: str | None = None) -> None:
        self._bucket, self._late, self._held, self._token = bucket, late, list[Entry](), token
        self._name, self._count = f"{run:0{RUN_DIGITS}}-{writer}", 0

    def append(self, entries: Sequence[Entry]) -> None:
        """Adds a group of rows. Their sound must be in the store, or be there before `publish`."""
        self._held += entries
        if not self._late:
            self.publish()

    def publish(self) -> None:
        """Makes the appended records count: uploads them as a segment."""
        if self._held:
            if self._token is not None and owner_of(self._bucket).get("token") != self._token:
                raise OutputError(f"{self._bucket.url} belongs to another run now", hint="omnitts help fleet")
            self._count += 1
            name = f"{self._name}-{self._count:06}"
            records, lines = packed(self._held, 0)
            self._bucket.put(f"{FOLDER}/{name}", segment_of(records, lines))
            self._published(name, self._held)
            self._held = []

    def _published(self, name: str, entries: Sequence[Entry]) -> None: ...

    def close(self) -> None: ...


class Mirror(Segments):
    """The driver's journal: its own segments, and on the disk a copy of those of all writers."""

    def __init__(self, bucket: Bucket, work: Path, run: int, *, late: bool, token: str | None = None) -> None:
        super().__init__(bucket, run, f"main-{secrets.token_hex(4)}", late=late, token=token)
        self._work, self._list = work, work / "segments"
        self._lock = threading.Lock()
        self._journal = RowJournal(work)
        try:
            known = files.read_text(self._list, files.LARGE).split() if self._list.exists() else []
            there = bucket.sizes(FOLDER)
            if not set(known) <= set(there):  # another machine has joined them, or begun again
                self._journal.clear()
                known = []
            self._known = dict.fromkeys(known)
            self.settled = len(read(work / "journal-main.bin"))  # records that were compared with their sounds
            disk.put(self._list, "".join(f"{name}\n" for name in known).encode())
            self.update()
        except BaseException:
            self._journal.close()
            raise

    def update(self) -> np.ndarray:
        """Copies the new segments; returns the row numbers of their records."""
        rows = [np.zeros(0, np.uint32)]
        with self._lock:
            there = self._bucket.sizes(FOLDER)
            for names in groups({name: there[name] for name in sorted(set(there) - set(self._known))}):
                found = self._bucket.get_all([f"{FOLDER}/{name}" for name in names])
                records, lines, size = [np.zeros(0, RECORD)], [], 0
                for data in found.values():
                    some, words = records_of(data)
                    records.append(moved(some, size))
                    lines.append(words)
                    size += len(words)
                self._journal.append_all(np.concatenate(records), io.BytesIO(b"".join(lines)))
                self._note(names)
                rows.append(np.concatenate(records)["row"])
        return np.concatenate(rows)

    def _published(self, name: str, entries: Sequence[Entry]) -> None:
        with self._lock:
            if name not in self._known:
                self._journal.append(entries)
                self._note([name])

    def _note(self, names: Sequence[str]) -> None:
        with self._list.open("a", encoding="ascii") as file:
            file.writelines(f"{name}\n" for name in names)
        self._known |= dict.fromkeys(names)

    def join(self) -> None:
        """Replaces many small segments by a few large ones."""
        with self._lock:
            if len(self._known) <= MANY:
                return
            old, records = list(self._known), read(self._work / "journal-main.bin")
            starts = [details_at(records[at]) for at in range(0, len(records), ROWS_TOGETHER)]
            name, names = f"{self._name[:RUN_DIGITS]}-z{secrets.token_hex(4)}", []
            with (self._work / "details-main.jsonl").open("rb") as file:
                for number, start in enumerate(starts):
                    file.seek(start)
                    lines = file.read(starts[number + 1] - start) if number + 1 < len(starts) else file.read()
                    part = moved(records[number * ROWS_TOGETHER :][:ROWS_TOGETHER], -start)
                    names.append(f"{name}-{number:06}")
                    self._bucket.put(f"{FOLDER}/{names[-1]}", segment_of(part, lines))
            self._note(names)
            self._bucket.remove([f"{FOLDER}/{name}" for name in old])
            self._known = dict.fromkeys(names)
            disk.put(self._list, "".join(f"{name}\n" for name in names).encode())

    def clear(self) -> None:
        """Forgets everything, here and in the store."""
        with self._lock:
            self._bucket.remove([f"{FOLDER}/{name}" for name in self._bucket.sizes(FOLDER)])
            self._journal.clear()
            self._known = {}
            disk.put(self._list, b"")

    def close(self) -> None:
        with suppress(OSError):
            self._journal.close()
