"""Prune: removes the sound of rows that are gone from the manifest, or have changed: files, or samples in shards.

A shard that keeps some of its samples is written again under the next number, and its records are added to the journal,
before the old one is removed. A run that is killed in between leaves both; the next --prune removes the old one.
"""

import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.errors import UsageError
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.journal import FAILED, Lookup, RowJournal
from omnitts_cli.fleet.names import name_hash
from omnitts_cli.fleet.plan import BAD, RowPlan
from omnitts_cli.fleet.store import TAR_END, Files, Shards, new_part, padded, parquet, sha8

ROWS_AT_ONCE = 256
Confirm = Callable[[str], bool]


def prune_files(plan: RowPlan, lookup: Lookup, store: Files, confirm: Confirm) -> int:
    """Removes files of rows that are gone; returns how many."""
    wanted = set(plan.rows["name"][(plan.rows["state"] & BAD) == 0].tolist())
    ours = set(lookup.records["name"].tolist())
    gone = [path for path, _ in store.all_files(plan) if (name := name_hash(path)) in ours and name not in wanted]
    if gone:
        ask(confirm, f"Remove {counted(len(gone), 'file')} whose rows are gone?")
        store.remove(gone)
    return len(gone)


def counted(count: int, what: str) -> str:
    """1 file, 2 files."""
    return f"{count} {what}{'s' * (count != 1)}"


def ask(confirm: Confirm, question: str) -> None:
    if not confirm(question):
        raise UsageError("--prune was not confirmed", hint="--prune -y")


def prune_shards(
    plan: RowPlan, lookup: Lookup, keys: np.ndarray, store: Shards, journal: RowJournal, confirm: Confirm
) -> int:
    """Writes shards anew without the samples that no row has any more; returns how many samples were removed.

    `keys`: of the rows of the plan, with their models. The store must be closed, and opened again afterwards.
    """
    latest = lookup.of_names(plan.rows["name"])
    live = np.zeros(len(lookup.records), bool)
    at = np.flatnonzero((latest >= 0) & ((plan.rows["state"] & BAD) == 0))
    live[latest[at][(lookup.records["key"][latest[at]] == keys[at]).all(1)]] = True
    made = lookup.records["state"] != FAILED
    stale = Counter(lookup.records["shard"][made & ~live].tolist())
    there = [number for number in store.numbers() if stale[number]]
    gone = sum(stale[number] for number in there)
    if there:
        ask(
            confirm, f"Write {counted(len(there), 'shard')} anew without {counted(gone, 'sample')} whose rows are gone?"
        )
        write_anew(there, live & made, lookup, store, journal)
    return gone


def prune_doubles(lookup: Lookup, store: Shards, journal: RowJournal) -> None:
    """Two workers may have made the same row. Writes the shards anew in which the earlier sample is."""
    latest = lookup.of_names(lookup.records["name"])
    made = lookup.records["state"] != FAILED
    double = made & (latest != np.arange(len(latest))) & (lookup.records["key"] == lookup.records["key"][latest]).all(1)
    there = [number for number in store.numbers() if (double & (lookup.records["shard"] == number)).any()]
    write_anew(there, made & (latest == np.arange(len(latest))), lookup, store, journal)


def write_anew(there: list[int], live: np.ndarray, lookup: Lookup, store: Shards, journal: RowJournal) -> None:
    """Writes these shards without the samples of records that are not live."""
    for number in there:
        kept = np.flatnonzero(live & (lookup.records["shard"] == number))
        old = store.fetched(number)
        if len(kept):
            after = store.next_number()
            write = rewritten_part if old.suffix == ".parquet" else rewritten_tar
            offsets = write(old, store.made(after), lookup.records[kept])
            store.stored(after)
            journal.append(
                [lookup.entry(int(one), shard=after, offset=at) for one, at in zip(kept, offsets, strict=True)]
            )
            journal.publish()
        store.removed(number)


def rewritten_tar(old: Path, new: Path, records: np.ndarray) -> list[int]:
    """Copies the samples of these records; returns where each sound begins now."""
    wanted, offsets = {int(record["offset"]): index for index, record in enumerate(records)}, [0] * len(records)
    with disk.new_file(new) as file, old.open("rb") as source:
        for start, sound, end in samples_at(old, int(records["length"].max())):
            if sound in wanted:
                offsets[wanted[sound]] = file.end + sound - start
                source.seek(start)
                file.write(source.read(end - start))
                file.end += end - start
        file.write(TAR_END)
    return offsets


def samples_at(shard: Path, longest: int) -> Iterator[tuple[int, int, int]]:
    """Of each member that may be a sound: where its sample begins, where it begins, and its end."""
    key, start = "", 0
    with tarfile.open(shard, "r:") as tar:
        for one in tar:
            if one.name.partition(".")[0] != key:
                key, start = one.name.partition(".")[0], one.offset
            end = one.offset_data + padded(one.size)
            yield start, one.offset_data, end
            if one.size <= longest and one.name.split(".")[-1] not in ("json", "txt", "npy"):
                start = end  # the sound is the last member; the same key may follow again


def rewritten_part(old: Path, new: Path, records: np.ndarray) -> list[int]:
    """Copies the rows of these records."""
    import pyarrow

    wanted = {(int(record["row"]) + 1, int(record["sha"])) for record in records}
    with parquet().ParquetFile(old) as source, new_part(new, source.schema_arrow) as writer:
        for batch in source.iter_batches(batch_size=ROWS_AT_ONCE):
            rows: list[dict[str, Any]] = batch.to_pylist()
            kept = [row for row in rows if (row["row"], sha8(row["audio"])) in wanted]
            if kept:
                writer.write_table(pyarrow.Table.from_pylist(kept, source.schema_arrow))
    return [0] * len(records)
