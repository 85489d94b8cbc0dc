"""Stores whose output is a bucket: an object for each sound, or tar and Parquet shards that are uploaded when full.

A shard is made on this machine. Its rows count when it has been uploaded, and their records after it; what a killed
writer had in an open shard is made again.
"""

import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.fleet import disk
from omnitts_cli.fleet.bucket import Bucket
from omnitts_cli.fleet.journal import FAILED, Lookup
from omnitts_cli.fleet.listing import FOLDERS
from omnitts_cli.fleet.names import name_hash
from omnitts_cli.fleet.plan import RowPlan
from omnitts_cli.fleet.store import Files, Made, Shards, codes_of, convert, npy, parquet, sha8, sound_in

CLAIMS = ".omnitts/shards"  # an object for each number that a writer has taken
LISTS_AT_ONCE = 32


class ObjectFiles(Files):
    """An object for the sound of each row."""

    def __init__(self, bucket: Bucket, *, codes: bool = False) -> None:
        super().__init__(Path(), codes=codes)
        self._bucket = bucket

    def place(self, group: Sequence[Made]) -> None:
        pairs = []
        for made in group:
            if made.part is None:
                continue
            if made.codes is not None:
                codes = made.part.with_name(f"{made.part.name}.npy")
                disk.put(codes, npy(made.codes))
                pairs.append((codes, codes_of(made.output)))
            pairs.append((made.part, made.output))
        self._bucket.put_files(pairs)
        for path, _ in pairs:
            path.unlink()

    def present(self, plan: RowPlan, lookup: Lookup, records: np.ndarray) -> np.ndarray:
        folders = np.unique(plan.rows["folder"][records >= 0]).tolist()
        self._listing = ObjectListing(self._in_folders(plan, folders))  # type: ignore[assignment]
        return super().present(plan, lookup, records)

    def _in_folders(self, plan: RowPlan, numbers: Sequence[int]) -> Iterator[tuple[str, int]]:
        folders = [FOLDERS[number] for number in numbers]
        if plan.naming.flat:
            folders = [""]
        with ThreadPoolExecutor(LISTS_AT_ONCE) as threads:
            for folder, found in zip(folders, threads.map(self._bucket.sizes, folders), strict=True):
                for name, size in found.items():
                    if name.endswith(plan.naming.suffix):
                        yield f"{folder}/{name}" if folder else name, size

    def all_files(self, plan: RowPlan) -> Iterator[tuple[str, int]]:
        return self._in_folders(plan, range(len(FOLDERS)))

    def remove(self, outputs: Sequence[str]) -> None:
        self._bucket.remove(outputs)
        if self._codes:
            self._bucket.remove([codes_of(output) for output in outputs])

    def _file(self, name: str) -> bytes | None:
        return self._bucket.get(name)


class ObjectListing:
    """A listing of objects, as Listing gives one of files."""

    def __init__(self, pairs: Iterator[tuple[str, int]]) -> None:
        self._pairs = pairs

    def found(self) -> tuple[np.ndarray, np.ndarray]:
        """Hashes of the names, sorted, and the sizes."""
        pairs = np.array([(name_hash(name), size) for name, size in self._pairs], np.uint64).reshape(-1, 2)
        order = np.argsort(pairs[:, 0])
        return pairs[order, 0], pairs[order, 1]


class ObjectShards(Shards):
    """Tar shards, or Parquet parts, as objects. `publish` makes the records of a shard count that was uploaded."""

    def __init__(
        self, bucket: Bucket, suffix: str, largest: int, work: Path, publish: Callable[[], None], *, to_parquet: bool
    ) -> None:
        if to_parquet:
            parquet()
        shutil.rmtree(work / "shards", ignore_errors=True)
        super().__init__(work, suffix, largest, None, folder=work / "shards")
        self._bucket, self._publish, self._to_parquet = bucket, publish, to_parquet

    def made(self, number: int) -> Path:
        return self._folder / self._name(number)

    def _name(self, number: int) -> str:
        return f"part-{number:05}.parquet" if self._to_parquet else f"shard-{number:05}.tar"

    def next_number(self) -> int:
        claimed = [int(name) for name in self._bucket.sizes(CLAIMS) if name.isdigit()]
        number = max([*claimed, *self.numbers()], default=-1) + 1
        while not self._bucket.put_new(f"{CLAIMS}/{number:05}", secrets.token_hex(8).encode()):
            number += 1
        return number

    def _sizes(self) -> dict[int, int]:
        start, end = self._name(0).split("00000")
        found = self._bucket.sizes()
        return {
            int(number): 1 << 62 if self._to_parquet else size
            for name, size in found.items()
            if name.startswith(start) and (number := name.removeprefix(start).removesuffix(end)).isdigit()
        }

    def _new(self) -> disk.File:
        self._number = self.next_number()
        return disk.File(self.path(self._number), new=True)

    def _end(self) -> None:
        number, begun = self._number, self._file is not None
        super()._end()
        if begun:
            if self._to_parquet:
                convert(self.path(number), self.made(number), self._suffix)
            self.stored(number)
            self.path(number).unlink(missing_ok=True)
        self._publish()

    def fetched(self, number: int) -> Path:
        path = self.made(number)
        self._bucket.fetch(path.name, path)
        return path

    def stored(self, number: int) -> None:
        path = self.made(number)
        self._bucket.put_files([(path, path.name)])
        path.unlink()

    def removed(self, number: int) -> None:
        self._bucket.remove([self._name(number)])
        self.made(number).unlink(missing_ok=True)

    def end_all(self, lookup: Lookup) -> None:
        """Removes shards without a record: their writer was killed after the upload. No writer is alive."""
        recorded = set(lookup.records["shard"][lookup.records["state"] != FAILED].tolist())
        self._bucket.remove([self._name(number) for number in self.numbers() if number not in recorded])

    def flush(self) -> None:
        self._end()

    def sound(self, record: Any, output: str) -> bytes | None:
        name = self._name(int(record["shard"]))
        if not self._to_parquet:
            data = self._bucket.get(name, int(record["offset"]), int(record["length"]))
            return data if data is not None and sha8(data) == int(record["sha"]) else None
        if int(record["shard"]) not in self._sizes():
            return None
        with self._bucket.open(name) as file:
            return sound_in(file, record)

    def where(self, record: Any, output: str) -> dict[str, Any]:
        found = {"output": self._name(int(record["shard"]))}
        return found if self._to_parquet else {**found, "offset": int(record["offset"])}
