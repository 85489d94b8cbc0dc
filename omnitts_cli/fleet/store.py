"""Stores: where finished sound goes. Files, one a row; or tar shards, which become Parquet where that was asked for.

A sound is on the disk, complete, before the journal gets its record; sound without a record is ignored.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Protocol

import numpy as np

from omnitts_cli.errors import UsageError
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.journal import FAILED, Lookup, found
from omnitts_cli.fleet.listing import FOLDERS, Listing, files_in
from omnitts_cli.fleet.names import numbered
from omnitts_cli.fleet.plan import RowPlan

TAR_BLOCK = 512
TAR_END = b"\0" * 1024
PARTS = "parts"  # folder of sound that is being made


@dataclass
class Made:
    """A row whose sound is finished, in a temporary file; the store puts it in place."""

    index: int  # of the row in the plan
    id: str
    output: str  # path of its sound below the output folder, as files
    key: tuple[int, int]
    state: int
    details: dict[str, Any]
    part: Path | None = None  # None: it failed
    sha256: str = ""
    length: int = 0
    text: str = ""
    codes: np.ndarray | None = None  # [frames, groups]
    shard: int = 0
    offset: int = 0
    seconds: float = 0.0
    expected: float = field(default=0.0)


class Store(Protocol):
    """Puts finished sound in place."""

    def place(self, group: Sequence[Made]) -> None:
        """Moves the sound of a group to its place; when it returns, all of it is on the disk."""

    def present(self, plan: RowPlan, lookup: Lookup, records: np.ndarray) -> np.ndarray:
        """Whether the sound of each record (an index into `lookup`, or -1) is there and has its length."""
        ...

    def sound(self, record: Any, output: str) -> bytes | None:
        """The sound of a record; None if it cannot be read."""

    def codes(self, output: str) -> np.ndarray | None:
        """The codes beside a sound, for a copy of it; None where they are not kept in files."""
        return None

    def is_there(self, record: Any, details: bytes) -> bool:
        """Whether the sound is that of this record, and not of another record of the same row."""
        return True

    def where(self, record: Any, output: str) -> dict[str, Any]:
        """`output` and `offset` of the manifest's line."""
        ...

    def flush(self) -> None:
        """Makes all placed sound readable, and as durable as the store can."""
        return None

    def finish(self) -> None:
        """Closes the store after the last row."""
        return None

    def close(self) -> None:
        """Frees what is open, whatever has happened."""
        return None


class Files(Store):
    """One sound file a row, in 256 folders."""

    def __init__(self, out: Path, *, codes: bool = False, listing: Listing | None = None) -> None:
        self._out, self._codes, self._listing = out, codes, listing
        self._folders: set[Path] = set()

    def place(self, group: Sequence[Made]) -> None:
        for made in group:
            if made.part is None:
                continue
            path = self._out / made.output
            if path.parent not in self._folders:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._folders.add(path.parent)
            if made.codes is not None:
                disk.put(self._out / codes_of(made.output), npy(made.codes))
            disk.rename(made.part, path)

    def present(self, plan: RowPlan, lookup: Lookup, records: np.ndarray) -> np.ndarray:
        naming = plan.naming
        listing = self._listing or Listing(self._out, naming.suffix, flat=naming.flat, rows=plan.count)
        names, sizes = listing.found()
        at = np.flatnonzero(records >= 0)
        name, length, state = (lookup.records[field][records[at]] for field in ("name", "length", "state"))
        where = found(names, np.arange(len(names)), name)
        good = state == FAILED
        if len(names):
            good |= (where >= 0) & (sizes[where] == length)
        present = np.zeros(len(records), bool)
        present[at] = good
        return present

    def all_files(self, plan: RowPlan) -> Iterator[tuple[str, int]]:
        """Path below the output folder, and size, of every file that may be a row's."""
        return files_in(self._out, ("",) if plan.naming.flat else FOLDERS, plan.naming.suffix)

    def remove(self, outputs: Sequence[str]) -> None:
        """Removes sound, and its codes, by their paths below the output folder."""
        for output in outputs:
            (self._out / output).unlink(missing_ok=True)
            (self._out / codes_of(output)).unlink(missing_ok=True)

    def sound(self, record: Any, output: str) -> bytes | None:
        data = self._file(output)
        whole = data is not None and len(data) == int(record["length"]) and sha8(data) == int(record["sha"])
        return data if whole else None

    def codes(self, output: str) -> np.ndarray | None:
        return loaded(self._file(codes_of(output)))

    def _file(self, name: str) -> bytes | None:
        try:
            return (self._out / name).read_bytes()
        except OSError:
            return None

    def is_there(self, record: Any, details: bytes) -> bool:
        return int(record["state"]) != FAILED and self.sound(record, json.loads(details)["output"]) is not None

    def where(self, record: Any, output: str) -> dict[str, Any]:
        return {"output": output, **({"codes": codes_of(output)} if self._codes else {})}


def loaded(data: bytes | None) -> np.ndarray | None:
    """The codes in a file; None if they cannot be read."""
    try:
        return None if data is None else np.load(io.BytesIO(data), allow_pickle=False)  # type: ignore[no-any-return]
    except (ValueError, EOFError, OSError):
        return None


def codes_of(output: str) -> str:
    """The path of the codes beside a sound file."""
    return f"{output.removesuffix(PurePath(output).suffix)}.codes.npy"


def sha8(data: bytes) -> int:
    """The part of the SHA-256 that a record holds."""
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "little")


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


class Shards(Store):
    """WebDataset: tar files of about equal size. The files of a row are adjacent, the sound last.

    Several workers may write shards of one folder: a shard belongs to the worker that created its file, so each sound
    of a row that two of them have made is there.
    """

    def __init__(
        self, out: Path, suffix: str, largest: int, lookup: Lookup | None, *, folder: Path | None = None
    ) -> None:
        """`lookup`: None for a worker, which begins new shards and leaves those of others alone."""
        self._out, self._suffix, self._largest = out, suffix, largest
        self._folder = folder or out
        self._folder.mkdir(parents=True, exist_ok=True)
        self._number, self._file = 0, None
        if lookup is not None:
            self._continue(lookup)

    _file: disk.File | None
    _goes_on: int | None = None  # where the next sample of the last shard begins
    _full = False  # the next group begins a new shard: this one's rows must be in the journal before it is closed

    def path(self, number: int) -> Path:
        return self._folder / f"shard-{number:05}.tar"

    def _continue(self, lookup: Lookup) -> None:
        """Repairs what a killed run has left. If there are more rows, they continue the last shard."""
        ends = self._repair(lookup)
        last = max(ends, default=-1)
        self._number = last + 1
        if last in ends and self.path(last).exists() and ends[last] <= self.path(last).stat().st_size:
            self._number, self._goes_on = last, ends[last] if ends[last] < self._largest else None

    def _repair(self, lookup: Lookup) -> dict[int, int]:
        """Cuts every shard back to its last recorded end, and removes those without a record; returns the ends.

        A shard that is shorter has lost rows; they are made again, in another shard.
        """
        held = lookup.records[lookup.records["state"] != FAILED]
        ends = np.zeros(int(held["shard"].max(initial=0)) + 1, np.uint64)
        np.maximum.at(ends, held["shard"], held["offset"] + held["length"])
        for number, path in self._tars():
            end = padded(int(ends[number])) if number < len(ends) else 0
            if not end:
                path.unlink()
            elif path.stat().st_size >= end:
                self._end_at(path, end)
        return {int(number): padded(int(ends[number])) for number in np.flatnonzero(ends)}

    def end_all(self, lookup: Lookup) -> None:
        """Ends the shards that workers have left open. No worker is alive, and our own shard is ended."""
        self._repair(lookup)

    def _end_at(self, path: Path, end: int) -> None:
        """Ends a shard after its last recorded sound."""
        file = disk.File(path, append=True)
        try:
            if os.pread(file.fileno(), len(TAR_END) + 1, end) == TAR_END:
                return
            file.cut(end)
            file.write(TAR_END)
            file.sync()
        finally:
            file.close()

    def _tars(self) -> list[tuple[int, Path]]:
        paths = sorted(self._folder.glob("shard-*.tar"))
        return [(int(path.stem[6:]), path) for path in paths if path.stem[6:].isdigit()]

    def made(self, number: int) -> Path:
        """A finished shard."""
        return self.path(number)

    def fetched(self, number: int) -> Path:
        """A finished shard, as a file of this machine."""
        return self.made(number)

    def stored(self, number: int) -> None:
        """A shard that was written as the file `made` says is now one of the output."""

    def removed(self, number: int) -> None:
        """Removes a finished shard."""
        self.made(number).unlink()

    def next_number(self) -> int:
        """A free shard number."""
        return max(self.numbers(), default=0) + 1

    def numbers(self) -> list[int]:
        """The numbers of all shards."""
        return sorted(self._sizes())

    def _new(self) -> disk.File:
        """The next shard. Of two workers that want a number, one creates the file, and the other takes the next."""
        end, self._goes_on = self._goes_on, None
        if end is not None:
            file = disk.File(self.path(self._number), append=True)
            file.cut(end)
            file.end = end
            return file
        self._number = max([self._number - 1, *self.numbers()]) + 1
        while True:
            try:
                return disk.File(self.path(self._number), new=True)
            except FileExistsError:
                self._number += 1

    def place(self, group: Sequence[Made]) -> None:
        if self._full:
            self._end()
        self._file = self._file or self._new()
        for made in group:
            if made.part is not None:
                made.shard = self._number
                made.offset = self._append(self._file, made)
                made.part.unlink()
        self._file.sync()
        self._full = self._file.end >= self._largest

    def _append(self, file: disk.File, made: Made) -> int:
        """Adds the files of a row; returns where its sound begins."""
        assert made.part is not None
        key = numbered(made.index + 1)
        about = {"id": made.id, "key": hex_key(made.key), **made.details}
        members = [("json", json.dumps(about, ensure_ascii=False).encode()), ("txt", made.text.encode())]
        if made.codes is not None:
            members.append(("codes.npy", npy(made.codes)))
        head = b"".join(member(f"{key}.{ending}", data) for ending, data in members)
        head += header(f"{key}{self._suffix}", made.length)
        file.write(head)
        offset = file.end + len(head)
        with made.part.open("rb") as sound:
            while data := sound.read(1 << 20):
                file.write(data)
        file.write(b"\0" * (padded(made.length) - made.length))
        file.end = padded(offset + made.length)
        return offset

    def _end(self) -> None:
        """Closes the shard."""
        if self._file is None:
            return
        self._file.write(TAR_END)
        self._file.sync()
        self._file.close()
        self._file, self._number, self._full = None, self._number + 1, False

    def present(self, plan: RowPlan, lookup: Lookup, records: np.ndarray) -> np.ndarray:
        at = np.flatnonzero(records >= 0)
        held = lookup.records[records[at]]
        sizes = self._sizes()
        size = np.array([sizes.get(int(n), 0) for n in range(int(held["shard"].max(initial=0)) + 1)], np.uint64)
        present = np.zeros(len(records), bool)
        present[at] = (held["state"] == FAILED) | (held["offset"] + held["length"] <= size[held["shard"]])
        return present

    def _sizes(self) -> dict[int, int]:
        sizes = {}
        for number, path in self._tars():
            with suppress(FileNotFoundError):  # another worker has just made a Parquet part of it
                sizes[number] = path.stat().st_size
        return sizes

    def sound(self, record: Any, output: str) -> bytes | None:
        try:
            with self.path(int(record["shard"])).open("rb") as file:
                file.seek(int(record["offset"]))
                data = file.read(int(record["length"]))
        except OSError:
            return None
        return data if sha8(data) == int(record["sha"]) else None

    def where(self, record: Any, output: str) -> dict[str, Any]:
        return {"output": self.path(int(record["shard"])).name, "offset": int(record["offset"])}

    def finish(self) -> None:
        """Ends the last shard properly."""
        self._end()

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()


class ParquetParts(Shards):
    """Parquet: shards are collected as tar files; each that is full becomes a part."""

    def __init__(self, out: Path, suffix: str, largest: int, lookup: Lookup | None, work: Path) -> None:
        parquet()
        super().__init__(out, suffix, largest, lookup, folder=work / "shards")

    def _repair(self, lookup: Lookup) -> dict[int, int]:
        for number, path in self._tars():
            if self.made(number).exists():  # a killed run had converted it already
                path.unlink()
        return super()._repair(lookup)

    def _continue(self, lookup: Lookup) -> None:
        super()._continue(lookup)
        for number, _ in self._tars():
            if number != self._number or self._goes_on is None:
                self._convert(number)

    def finish(self) -> None:
        super().finish()
        if self._goes_on is not None:  # a killed run had made all rows
            self._goes_on = None
            self._convert(self._number)

    def _new(self) -> disk.File:
        while True:
            file = super()._new()
            if not self.made(self._number).exists():
                return file
            file.close()  # another worker has ended its shard since we looked at the numbers
            self.path(self._number).unlink()
            self._number += 1

    def _end(self) -> None:
        number = self._number
        super()._end()
        if self._number > number:
            self._convert(number)

    def end_all(self, lookup: Lookup) -> None:
        super().end_all(lookup)
        for number, _ in self._tars():
            self._convert(number)

    def _convert(self, number: int) -> None:
        convert(self.path(number), self.made(number), self._suffix)
        self.path(number).unlink()

    def made(self, number: int) -> Path:
        """A finished part."""
        return self._out / f"part-{number:05}.parquet"

    def _sizes(self) -> dict[int, int]:
        parts = {int(path.stem[5:]): 1 << 62 for path in self._out.glob("part-*.parquet") if path.stem[5:].isdigit()}
        return {**super()._sizes(), **parts}

    def sound(self, record: Any, output: str) -> bytes | None:
        part = self.made(int(record["shard"]))
        if not part.exists():
            return super().sound(record, output)
        return sound_in(part, record)

    def where(self, record: Any, output: str) -> dict[str, Any]:
        return {"output": self.made(int(record["shard"])).name}


def parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise UsageError("parquet needs pyarrow, which is not installed", hint="pip install pyarrow") from None
    return pyarrow.parquet


def sound_in(part: Any, record: Any) -> bytes | None:
    """The sound of a record in a Parquet file, which is given by its path or open."""
    found = parquet().read_table(part, columns=["audio"], filters=[("row", "==", int(record["row"]) + 1)])
    return next((one for one in found["audio"].to_pylist() if sha8(one) == int(record["sha"])), None)


@contextmanager
def new_part(path: Path, schema: Any, **options: Any) -> Iterator[Any]:
    """The writer of a Parquet file that is at its place when the block has ended, complete and on the disk."""
    temporary = path.with_name(f".{path.name}.part")
    with parquet().ParquetWriter(temporary, schema, **options) as writer:
        yield writer
    disk.sync(temporary)
    disk.rename(temporary, path)


def convert(shard: Path, part: Path, suffix: str) -> None:
    """A tar shard as a Parquet file: row, id, key, text, audio, and the details as JSON."""
    import pyarrow

    schema = pyarrow.schema(
        [
            ("row", pyarrow.int64()), ("id", pyarrow.string()), ("key", pyarrow.string()), ("text", pyarrow.string()),
            ("audio", pyarrow.binary()), ("audio_s", pyarrow.float64()), ("sample_rate", pyarrow.int32()),
            ("seed", pyarrow.int64()), ("details", pyarrow.string()), ("codes", pyarrow.binary()),
        ]
    )  # fmt: skip
    with new_part(part, schema, compression="none") as writer:
        for group in grouped(samples(shard, suffix)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema))


def samples(shard: Path, suffix: str) -> Iterator[dict[str, Any]]:
    """The rows of a tar shard."""
    row: dict[str, Any] = {}
    with tarfile.open(shard, "r:") as tar:
        for one in tar:
            key, _, ending = one.name.partition(".")
            file = tar.extractfile(one)
            assert file is not None
            data = file.read()
            if ending == "json":
                about = json.loads(data)
                row = {name: about.pop(name, None) for name in ("id", "key", "audio_s", "sample_rate", "seed")}
                row |= {"row": int(key), "details": json.dumps(about, ensure_ascii=False)}
            elif ending == "txt":
                row["text"] = data.decode()
            elif ending == "codes.npy":
                row["codes"] = data
            elif f".{ending}" == suffix:
                yield {**row, "audio": data}


def grouped(rows: Iterator[dict[str, Any]], most: int = 32 << 20) -> Iterator[list[dict[str, Any]]]:
    """Groups of rows with about `most` bytes of sound."""
    group, held = [], 0
    for row in rows:
        group.append(row)
        held += len(row["audio"])
        if held >= most:
            yield group
            group, held = [], 0
    if group:
        yield group


def padded(size: int) -> int:
    return -(-size // TAR_BLOCK) * TAR_BLOCK


def header(name: str, size: int) -> bytes:
    """The head of a tar member; no time and no owner, so that equal rows give equal bytes."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, 0
    return info.tobuf(tarfile.PAX_FORMAT)


def member(name: str, data: bytes) -> bytes:
    return header(name, len(data)) + data + b"\0" * (padded(len(data)) - len(data))


def hex_key(key: Sequence[int]) -> str:
    """A key as in the output manifest."""
    return b"".join(int(half).to_bytes(8, "little") for half in key).hex()
