"""RowJournal: what has been made, in records of 64 bytes, and the details of each row as a line of JSON beside it.

The sound comes first, then its details, then its record, each synced before the next. Reading skips records
with a wrong checksum; a partial record at the end is cut off.
"""

import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from omnitts_cli.fleet import disk

RECORD = np.dtype(
    [
        ("key", "<u8", 2),  # of the content
        ("name", "<u8"),  # of the file, or of the id in shards
        ("sha", "<u8"),  # first 8 bytes of the sound's SHA-256
        ("offset", "<u8"),  # of the sound in its shard
        ("length", "<u8"),  # of the sound
        ("row", "<u4"),
        ("shard", "<u2"),
        ("state", "u1"),
        ("details_high", "u1"),  # where the details begin: 40 bits
        ("details_low", "<u4"),
        ("crc", "<u4"),  # of the 60 bytes before
    ]
)
SIZE = RECORD.itemsize
assert SIZE == 64
DONE, UNVERIFIED, FAILED = 1, 2, 3
STATUS = {DONE: "ok", UNVERIFIED: "unverified", FAILED: "failed"}
CHECKED_AT_ONCE = 1 << 16
COPIED_AT_ONCE = 1 << 22  # bytes


@dataclass(frozen=True)
class Entry:
    """One finished row, as the journal keeps it."""

    key: tuple[int, int]
    name: int
    row: int
    state: int
    details: bytes  # one line of JSON
    sha: int = 0
    shard: int = 0
    offset: int = 0
    length: int = 0


class RowJournal:
    """The journal of one writer, open for appending."""

    def __init__(self, folder: Path, writer: str = "main") -> None:
        self._file = disk.File(folder / f"journal-{writer}.bin", append=True)
        self._details = disk.File(folder / f"details-{writer}.jsonl", append=True)
        try:
            self._cut()
        except BaseException:
            self.close()
            raise

    def _cut(self) -> None:
        """Cuts off what a killed run has left after the last complete record."""
        size, held = self._file.end // SIZE * SIZE, None
        while size:
            data = os.pread(self._file.fileno(), SIZE, size - SIZE)
            held = np.frombuffer(data, RECORD)[0]
            if zlib.crc32(data[: SIZE - 4]) == int(held["crc"]):
                break
            size -= SIZE
        end = 0
        if size and held is not None:
            start = details_at(held)
            end = start + len(line_at(self._details.fileno(), start))
        self._file.cut(size)
        self._details.cut(end)
        self._details.end = end
        self._file.end = size

    def append(self, entries: Sequence[Entry]) -> None:
        """Adds a group of rows. Their sound must be on the disk."""
        records, lines = packed(entries, self._details.end)
        self._add([lines], records)

    def absorb(self, folder: Path, is_there: Callable[[Any, bytes], bool]) -> int:
        """Appends the journals of workers, and removes them; returns the number of records.

        Two workers may have made the same row. If their sounds differ, the one that `is_there` counts; it is called
        with a record and its details.
        """
        found = [(path, details_of(path), read(path)) for path in sorted(folder.glob("journal-w*.bin"))]
        doubtful = made_differently([records for _, _, records in found])
        for path, lines, records in found:
            if len(records) and lines.exists():
                kept = np.ones(len(records), bool)
                with lines.open("rb") as file:
                    for at in np.flatnonzero(np.isin(records["name"], doubtful)):
                        kept[at] = is_there(records[at], line_at(file.fileno(), details_at(records[at])))
                    self.append_all(records[kept], file)
            path.unlink()
            lines.unlink(missing_ok=True)
        return sum(len(records) for _, _, records in found)

    def append_all(self, records: np.ndarray, lines: BinaryIO) -> None:
        """Appends the records of another journal, and all of its details."""
        self._add(iter(lambda: lines.read(COPIED_AT_ONCE), b""), moved(records, self._details.end))

    def _add(self, details: Iterable[bytes], records: np.ndarray) -> None:
        """Writes details, and then the records that point to them."""
        for file, parts in ((self._details, details), (self._file, [records.tobytes()])):
            file.seek(file.end)  # an append that failed may have written a part
            for data in parts:
                file.write(data)
            file.sync()
            file.end = file.tell()

    def publish(self) -> None:
        """Makes the appended records count. In a folder they do so at once."""

    def clear(self) -> None:
        """Forgets all rows."""
        for file in (self._file, self._details):
            file.cut(0)
            file.end = 0

    def close(self) -> None:
        for file in (self._file, self._details):
            with suppress(OSError):
                file.close()


def packed(entries: Sequence[Entry], at: int) -> tuple[np.ndarray, bytes]:
    """The records of rows, and their details, of which the first begins at `at`."""
    records, lines = np.zeros(len(entries), RECORD), []
    for record, entry in zip(records, entries, strict=True):
        for field in ("key", "name", "sha", "offset", "length", "row", "shard", "state"):
            record[field] = getattr(entry, field)
        record["details_high"], record["details_low"] = at >> 32, at & 0xFFFFFFFF
        record["crc"] = zlib.crc32(record.tobytes()[: SIZE - 4])
        lines.append(entry.details + b"\n")
        at += len(lines[-1])
    return records, b"".join(lines)


def moved(records: np.ndarray, by: int) -> np.ndarray:
    """The records, with the offsets of their details increased."""
    starts = ((records["details_high"].astype(np.int64) << 32) + records["details_low"] + by).astype(np.uint64)
    records = records.copy()
    records["details_high"], records["details_low"] = starts >> np.uint64(32), starts & np.uint64(0xFFFFFFFF)
    records["crc"] = crc32_of(records.view(np.uint8).reshape(-1, SIZE)[:, :-4])
    return records


def details_of(path: Path) -> Path:
    """The file of details beside a journal."""
    return path.with_name(path.name.replace("journal-", "details-", 1)).with_suffix(".jsonl")


def made_differently(journals: Sequence[np.ndarray]) -> np.ndarray:
    """The names of rows that have records with different sounds."""
    records = np.concatenate([*journals, np.zeros(0, RECORD)])
    order = np.lexsort((records["sha"], records["name"]))
    names, sums = records["name"][order], records["sha"][order]
    return np.unique(names[1:][(names[1:] == names[:-1]) & (sums[1:] != sums[:-1])])


def details_at(record: Any) -> int:
    return int(record["details_high"]) << 32 | int(record["details_low"])


def line_at(descriptor: int, start: int) -> bytes:
    """The line that begins there, with its end."""
    line, size = b"", 4096
    while b"\n" not in line:
        more = os.pread(descriptor, size, start + len(line))
        if not more:
            return line
        line, size = line + more, size * 4
    return line[: line.index(b"\n") + 1]


class Lookup(AbstractContextManager["Lookup"]):
    """All journals of a folder. Of two records with one name, the later counts."""

    def __init__(self, folder: Path) -> None:
        parts, writers = [], []
        self._lines: list[int] = []
        for path in sorted(folder.glob("journal-*.bin")):
            details = details_of(path)
            if not details.exists():
                continue
            records = read(path)
            parts.append(records)
            writers.append(np.full(len(records), len(self._lines), np.uint16))
            self._lines.append(disk.open_file(details, os.O_RDONLY))
        self.records = np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else np.zeros(0, RECORD)
        self._writers = np.concatenate(writers) if writers else np.zeros(0, np.uint16)
        names = self.records["name"].copy()  # a column in one piece is faster to sort and to search
        order = np.argsort(names, kind="stable")
        names = names[order]
        last = np.append(names[1:] != names[:-1], True) if len(names) else np.zeros(0, bool)
        self._by_name = order[last].astype(np.uint32)  # the latest record of each name, by name
        self._names = names[last]

    @cached_property
    def _by_key(self) -> tuple[np.ndarray, np.ndarray]:
        """The first halves of the keys of all sounds, sorted, and their records."""
        whole = self._by_name[self.records["state"][self._by_name] != FAILED]
        keys = self.records["key"][whole, 0]
        order = np.argsort(keys)
        return keys[order], whole[order]

    def of_names(self, names: np.ndarray) -> np.ndarray:
        """The index of each name's latest record; -1 where there is none."""
        return found(self._names, self._by_name, names)

    def with_key(self, key: np.ndarray) -> int:
        """The index of a record whose sound has that content; -1 if there is none."""
        keys, records = self._by_key
        at = int(np.searchsorted(keys, key[0]))
        while at < len(keys) and keys[at] == key[0]:
            if self.records["key"][records[at], 1] == key[1]:
                return int(records[at])
            at += 1
        return -1

    def has_keys(self, keys: np.ndarray) -> np.ndarray:
        """Whether there may be sound of each content."""
        latest = np.zeros(len(self.records), bool)
        latest[self._by_name] = True
        known = np.sort(self.records["key"][latest & (self.records["state"] != FAILED), 0])
        return found(known, np.arange(len(known)), keys[:, 0]) >= 0

    def details(self, index: int) -> bytes:
        """The details of a record, as JSON."""
        return line_at(self._lines[self._writers[index]], details_at(self.records[index])).rstrip(b"\n")

    def entry(self, index: int, *, shard: int, offset: int) -> Entry:
        """A record again, for sound that was moved."""
        held = self.records[index]
        key = int(held["key"][0]), int(held["key"][1])
        return Entry(
            key, int(held["name"]), int(held["row"]), int(held["state"]), self.details(index), int(held["sha"]),
            shard, offset, int(held["length"]),
        )  # fmt: skip

    def __exit__(self, *given: object) -> None:
        self.close()

    def close(self) -> None:
        for descriptor in self._lines:
            os.close(descriptor)
        self._lines = []


def found(sorted_values: np.ndarray, indexes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """For each wanted value the index that stands beside it; -1 where it is missing."""
    if not len(sorted_values):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(wanted)  # neighbours are then found near each other, three times as fast for a million
    ordered = wanted[order]
    at = np.minimum(np.searchsorted(sorted_values, ordered), len(sorted_values) - 1)
    result = np.empty(len(wanted), np.int64)
    result[order] = np.where(sorted_values[at] == ordered, indexes[at].astype(np.int64), -1)
    return result


def read(path: Path) -> np.ndarray:
    """The records with a correct checksum."""
    size = path.stat().st_size // SIZE * SIZE
    if not size:
        return np.zeros(0, RECORD)
    records = np.fromfile(path, RECORD, size // SIZE)
    good = np.ones(len(records), bool)
    for start in range(0, len(records), CHECKED_AT_ONCE):
        part = records[start : start + CHECKED_AT_ONCE]
        good[start : start + len(part)] = crc32_of(part.view(np.uint8).reshape(-1, SIZE)[:, :-4]) == part["crc"]
    return records if good.all() else records[good]


@cache
def crc_table() -> np.ndarray:
    """The CRC-32 of each two bytes."""
    values = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(16):
        values = np.where(values & 1, (values >> 1) ^ np.uint32(0xEDB88320), values >> 1)
    return values


def crc32_of(rows: np.ndarray) -> np.ndarray:
    """zlib's CRC-32 of each row of bytes, an even number of them, all rows at once."""
    pairs, table = np.ascontiguousarray(rows).view("<u2"), crc_table()
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in range(pairs.shape[1]):
        crc = table[(crc ^ pairs[:, column]) & 0xFFFF] ^ (crc >> np.uint32(16))
    return crc ^ np.uint32(0xFFFFFFFF)
