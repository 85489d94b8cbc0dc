"""RowPlan: the check pass over a manifest, kept as 48 bytes a row, so that a resume need not read the manifest again.

A plan is used again if the manifest's bytes, the options and the bytes of all voices and clips are the same.
"""

import hashlib
import json
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.errors import InputError, OmniError
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.content import Keys, digest_of
from omnitts_cli.fleet.manifest import Manifest, RawRow
from omnitts_cli.fleet.names import name_hash, relative_path
from omnitts_cli.fleet.rows import Row, RowError, RowRules, VoiceChoice
from omnitts_cli.parse import json_object, json_value
from omnitts_cli.speech.speaking import estimated_s

ROW = np.dtype(
    [
        ("key", "<u8", 2),  # without the model
        ("name", "<u8"),  # hash of the path of its sound
        ("offset", "<u8"),  # of the row in the manifest
        ("length", "<u4"),
        ("expected", "<f4"),  # seconds of speech
        ("line", "<u4"),
        ("model", "u1"),  # which of the manifest's models
        ("state", "u1"),
        ("folder", "u1"),
        ("unused", "u1"),
    ]
)
assert ROW.itemsize == 48
SCHEMA = 2
HEAD = 1 << 16
BAD, CAPITALS = 1, 2  # bits of `state`
AT_ONCE = 1 << 14
SUMMED_AT_ONCE = 1 << 20
MOST_MODELS = 255
Look = Callable[[int], None]


@dataclass(frozen=True)
class Naming:
    """How sound files are called."""

    suffix: str
    flat: bool = False

    def path(self, id: str, capitals: bool) -> str:
        return relative_path(id, self.suffix, flat=self.flat, capitals=capitals)


class RowPlan:
    """The checked rows of a manifest. `rows[i]` is the row number i + 1."""

    def __init__(self, path: Path, manifest: Manifest, rules: RowRules, keys: Keys, naming: Naming) -> None:
        self.path, self.manifest, self.rules, self.keys, self.naming = path, manifest, rules, keys, naming
        head = head_of(path)
        self.models: list[str] = head["models"]
        self.count: int = head["rows"]
        self.bad: int = head["bad"]
        self.rows: np.ndarray = np.memmap(path, ROW, "r", HEAD, (self.count,)) if self.count else np.zeros(0, ROW)  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """For workers, which read the same files."""
        return RowPlan, (self.path.resolve(), self.manifest, self.rules, self.keys, self.naming)

    def row(self, index: int) -> Row:
        """The row of that index, read from the manifest again."""
        place = self.rows[index]
        values = self.manifest.source.read(int(place["offset"]), int(place["length"]))
        return self.rules.row(values, index + 1, int(place["line"]))

    def output(self, index: int, id: str) -> str:
        """The path of the row's sound in the output folder."""
        return self.naming.path(id, bool(self.rows[index]["state"] & CAPITALS))

    def bad_rows(self) -> Iterator[dict[str, Any]]:
        """The rows that cannot be spoken: row, line, id, code, message."""
        with beside(self.path, "bad").open("rb") as file:
            for line in file:
                yield json_object(line)


def head_of(path: Path) -> dict[str, Any]:
    """What the beginning of a plan says of it."""
    with path.open("rb") as file:
        found: dict[str, Any] = json_object(file.read(HEAD).rstrip(b"\0"))
    return found


def beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.stem}.{what}")


def sum_of(path: Path, start: int = 0) -> int:
    """The checksum of a file's bytes."""
    found = 0
    with path.open("rb") as file:
        file.seek(start)
        while data := file.read(SUMMED_AT_ONCE):
            found = zlib.crc32(data, found)
    return found


def is_whole(path: Path) -> bool:
    """Whether a plan and the list of its bad rows are as they were written."""
    try:
        head = head_of(path)
        size = HEAD + head["rows"] * ROW.itemsize
        sums = (sum_of(path, HEAD), sum_of(beside(path, "bad")))
        return path.stat().st_size == size and sealed(head, sums) == head
    except (OSError, ValueError, KeyError, TypeError):
        return False


def sealed(head: dict[str, Any], sums: tuple[int, int]) -> dict[str, Any]:
    """The same head with a checksum of itself, of the rows and of the bad rows."""
    head = {name: value for name, value in head.items() if name != "sum"}
    return {**head, "sum": zlib.crc32(repr((sorted(head.items()), sums)).encode())}


def plan_of(
    manifest: Manifest, rules: RowRules, keys: Keys, naming: Naming, work: Path, look: Look = lambda rows: None
) -> RowPlan:
    """The plan of a manifest, from an earlier run where nothing has changed. `look` gets the number of rows so far."""
    options = repr((SCHEMA, manifest.digest, manifest.kind, keys.identity, rules, naming))
    path = work / f"plan-{hashlib.sha256(options.encode()).hexdigest()[:24]}.bin"
    if not (is_whole(path) and voices_unchanged(beside(path, "voices"))):
        for old in work.glob("plan-*"):
            with suppress(OSError):
                old.unlink()
        ManifestCheck(manifest, rules, keys, naming, path, look).write()
    return RowPlan(path, manifest, rules, keys, naming)


def voices_unchanged(path: Path) -> bool:
    """Whether all voices and clips have the bytes that they had."""
    try:
        with path.open("rb") as file:
            return all(digest_of(VoiceChoice(*speaker)) == digest for speaker, digest in map(json_value, file))
    except (OSError, OmniError, ValueError, TypeError):
        return False


class ManifestCheck:
    """One pass over a manifest."""

    def __init__(self, manifest: Manifest, rules: RowRules, keys: Keys, naming: Naming, path: Path, look: Look) -> None:
        self._manifest, self._rules, self._keys, self._naming, self._path = manifest, rules, keys, naming, path
        self._look, self._speed = look, keys.speech.speed
        self._models: list[str] = []
        self._folds = array("Q")  # hashes of the paths in small letters; 0 for bad rows
        self._count = self._bad = 0

    def write(self) -> None:
        """Writes the plan and the files beside it."""
        part = self._path.with_suffix(".part")  # a name that goes with the other old plans
        with disk.new_file(self._path, part) as file, closing(disk.File(beside(self._path, "bad"))) as bad:
            file.write(b"\0" * HEAD)
            self._write_rows(file, bad)
            file.sync()
            self._settle_names(file.path, bad)
            self._write_voices()
            head = {"schema": SCHEMA, "rows": self._count, "bad": self._bad, "models": self._models}
            bad.sync()
            file.sync()
            sums = (sum_of(file.path, HEAD), sum_of(bad.path))
            file.seek(0)
            file.write(json.dumps(sealed(head, sums)).encode())

    def _write_rows(self, file: disk.File, bad: disk.File) -> None:
        block, filled = np.zeros(AT_ONCE, ROW), 0
        for raw in self._manifest.source.rows():
            self._count += 1
            try:
                block[filled] = self._planned(raw)
            except RowError as error:
                block[filled] = self._refused(raw, error, bad)
            filled += 1
            if filled == AT_ONCE:
                file.write(block.tobytes())
                filled = 0
                self._look(self._count)
        file.write(block[:filled].tobytes())
        self._look(self._count)
        if not self._count:
            raise InputError(f"{self._manifest.name} has no rows", hint="omnitts help batch")

    def _planned(self, raw: RawRow) -> tuple[Any, ...]:
        if isinstance(raw.values, RowError):
            raise raw.values
        row = self._rules.row(raw.values, self._count, raw.line)
        try:
            key, _ = self._keys.of(row)
            model = self._model(row)
        except RowError as error:
            error.id = row.id
            raise
        path = self._naming.path(row.id, False)
        self._folds.append(name_hash(path.lower()) or 1)
        expected = estimated_s(row.text) / (row.speed or self._speed)
        folder = 0 if self._naming.flat else int(path[:2], 16)
        return (np.frombuffer(key, "<u8"), name_hash(path), raw.offset, raw.length, expected, raw.line,
                model, 0, folder, 0)  # fmt: skip

    def _model(self, row: Row) -> int:
        name = self._keys.model(row)
        if name not in self._models:
            if len(self._models) >= MOST_MODELS:
                raise RowError(f"more than {MOST_MODELS} models in one manifest")
            self._models.append(name)
        return self._models.index(name)

    def _refused(self, raw: RawRow, error: RowError, bad: disk.File) -> tuple[Any, ...]:
        self._folds.append(0)
        self._note(bad, self._count, raw.line, error)
        return (0, 0, raw.offset, raw.length, 0.0, raw.line, 0, BAD, 0, 0)

    def _note(self, bad: disk.File, number: int, line: int, error: RowError) -> None:
        self._bad += 1
        found = {"row": number, "line": line, "id": error.id, "code": error.code, "message": error.message}
        bad.write(json.dumps(found).encode() + b"\n")

    def _settle_names(self, part: Path, bad: disk.File) -> None:
        """Rows whose names meet: the same id twice fails, an id that differs only by case gets another name."""
        folds = np.frombuffer(self._folds, np.uint64)
        order = np.argsort(folds, kind="stable")
        ordered = folds[order]
        twins = np.zeros(len(folds), bool)
        twins[1:] = (ordered[1:] == ordered[:-1]) & (ordered[1:] != 0)
        if not twins.any():
            return
        rows = np.memmap(part, ROW, "r+", HEAD, (self._count,))
        starts = np.flatnonzero(twins & ~np.roll(twins, 1)) - 1
        for start in starts:
            end = start + 1
            while end < len(twins) and twins[end]:
                end += 1
            self._settle(rows, order[start:end], bad)
        rows.flush()

    def _settle(self, rows: np.ndarray, indexes: np.ndarray, bad: disk.File) -> None:
        """One group of rows, the earliest first."""
        seen: dict[str, int] = {}
        for index in map(int, indexes):
            place = rows[index]
            values = self._manifest.source.read(int(place["offset"]), int(place["length"]))
            id = self._rules.row(values, index + 1, int(place["line"])).id
            first = seen.setdefault(id, int(place["line"]))
            if first != int(place["line"]):
                where = f"the id '{id[:80]}' is already in line {first}"
                self._note(bad, index + 1, int(place["line"]), RowError(where, "duplicate_id", id))
                rows["state"][index] |= BAD
            elif len(seen) > 1:
                rows["state"][index] |= CAPITALS
                rows["name"][index] = name_hash(self._naming.path(id, True))

    def _write_voices(self) -> None:
        lines = [json.dumps([list(speaker), digest]) for speaker, digest in self._keys.voices.items()]
        disk.put(beside(self._path, "voices"), "".join(f"{line}\n" for line in lines).encode())
