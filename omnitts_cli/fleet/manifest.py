"""Manifests: rows of text from JSONL, CSV, TSV, Parquet, LJSpeech, lines, a folder of texts, or standard input.

A source gives its rows one after the other, and any one of them again by its place. Those without places (a folder,
Parquet, standard input) are first copied to a file of JSON lines.
"""

import csv
import hashlib
import io
import json
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from omnitts_cli.audio.magic import HEAD_BYTES, no_text
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.content import file_digest
from omnitts_cli.fleet.rows import RowError, refuse_unknown
from omnitts_cli.parse import ParseError, json_object
from omnitts_cli.text.inputs import SUFFIXES as TEXT_FORMATS

KINDS = ("jsonl", "csv", "tsv", "parquet", "ljspeech", "lines", "folder")
SUFFIXES = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet",
    ".txt": "lines",
}  # fmt: skip
TEXTS = (".txt", ".md", ".ssml")
TEXT_COLUMNS = ("text", "input")
SPREADSHEETS = (".xlsx", ".xls", ".ods")
LONGEST_LINE = 16 << 20
BLOCK = 1 << 20
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class RawRow:
    """A row as it stands in the manifest: its line from 1, its place, and its fields or what is wrong with them."""

    line: int
    offset: int
    length: int
    values: dict[str, Any] | RowError


class LineFile(ABC):
    """A file of rows, which is read line by line, and by place from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise unreadable(path, error) from None

    @abstractmethod
    def rows(self) -> Iterator[RawRow]:
        """All rows, in order."""

    @abstractmethod
    def read(self, offset: int, length: int) -> dict[str, Any]:
        """The fields of one row again, by its place; RowError if they cannot be read."""

    def lines(self) -> Iterator[tuple[int, int, int, bytes | None]]:
        """(line, offset, length, bytes); None instead of the bytes of a line that is too long."""
        self._file.seek(0)
        start = len(BOM) if self._file.read(len(BOM)) == BOM else 0
        self._file.seek(start)
        number, offset = 0, start
        while line := self._file.readline(LONGEST_LINE + 1):
            number, length = number + 1, len(line)
            data: bytes | None = line
            if length > LONGEST_LINE:
                data = None
                while line and not line.endswith(b"\n"):
                    line = self._file.readline(BLOCK)
                    length += len(line)
            yield number, offset, length, data
            offset += length

    def bytes_at(self, offset: int, length: int) -> bytes:
        parts = []
        while length > 0:
            part = os.pread(self._file.fileno(), length, offset)
            if not part:
                raise RowError("the manifest has become shorter while it was read")
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def close(self) -> None:
        self._file.close()


class RowLines(LineFile):
    """One row a line. `parse` makes the fields of it."""

    def __init__(self, path: Path, parse: Callable[[str], dict[str, Any]]) -> None:
        super().__init__(path)
        self._parse = parse

    def rows(self) -> Iterator[RawRow]:
        for line, offset, length, data in self.lines():
            if data is None:
                yield RawRow(
                    line, offset, 0, RowError(f"the line has {length:,} bytes; at most {LONGEST_LINE:,} are read")
                )
            elif data.strip():
                yield RawRow(line, offset, length, self._fields(data))

    def __reduce__(self) -> tuple[Any, ...]:
        return RowLines, (self.path.resolve(), self._parse)

    def _fields(self, data: bytes) -> dict[str, Any] | RowError:
        try:
            return self._parse(decoded(data))
        except RowError as error:
            return error

    def read(self, offset: int, length: int) -> dict[str, Any]:
        return self._parse(decoded(self.bytes_at(offset, length)))


def decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RowError(f"the line is not UTF-8 at byte {error.start + 1}") from None


def json_fields(line: str) -> dict[str, Any]:
    try:
        return json_object(line)
    except ParseError as error:
        raise RowError(f"the line {error}") from None


def line_fields(line: str) -> dict[str, Any]:
    return {"text": line.rstrip("\r\n")}


def ljspeech_fields(line: str) -> dict[str, Any]:
    """`id|as written|as spoken`; the last one that is not empty is spoken."""
    parts = line.rstrip("\r\n").split("|")
    if len(parts) not in (2, 3):
        raise RowError(f"the line has {len(parts)} fields; LJSpeech has id|text or id|text|normalized text")
    spoken = [part for part in parts[1:] if part.strip()]
    return {"id": parts[0], "text": spoken[-1] if spoken else ""}


class Table(LineFile):
    """CSV or TSV with a header, quoted as RFC 4180 says; a field may contain line ends."""

    def __init__(self, path: Path, delimiter: str) -> None:
        super().__init__(path)
        self._delimiter = delimiter
        csv.field_size_limit(LONGEST_LINE)
        self._line = self._end = 0
        self._too_long = False
        self.header = self._read_header()

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self.path.resolve(), self._delimiter)

    def _read_header(self) -> list[str]:
        for row in self._parsed(self.lines()):
            if isinstance(row, list) and row:
                return [name.strip() for name in row]
        raise InputError(f"manifest {self.path} is empty", hint="its first line names the columns: id,text")

    def _parsed(self, lines: Iterable[tuple[int, int, int, bytes | None]]) -> Iterator[list[str] | RowError]:
        def fed() -> Iterator[str]:
            for number, offset, length, data in lines:
                self._line, self._end = number, offset + length
                self._too_long = self._too_long or data is None
                yield (data or b"\n").decode("utf-8", "surrogateescape")

        reader = csv.reader(fed(), delimiter=self._delimiter, strict=True)
        while True:
            try:
                yield next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield RowError(f"not valid {'TSV' if self._delimiter == chr(9) else 'CSV'}: {error}")

    def rows(self) -> Iterator[RawRow]:
        before, line = -1, 0  # the header has not been seen
        self._too_long = False
        for row in self._parsed(self.lines()):
            if before >= 0 and row != []:
                yield RawRow(line + 1, before, self._end - before, self._row(row))
            if before >= 0 or row != []:
                before, line, self._too_long = self._end, self._line, False

    def _row(self, row: list[str] | RowError) -> dict[str, Any] | RowError:
        if self._too_long:
            return RowError(f"a line of the row is longer than {LONGEST_LINE:,} bytes")
        return row if isinstance(row, RowError) else self._fields(row)

    def _fields(self, row: list[str]) -> dict[str, Any] | RowError:
        if len(row) != len(self.header):
            return RowError(f"the row has {len(row)} fields; the header has {len(self.header)}")
        if any("\udc80" <= c <= "\udcff" for cell in row if not cell.isascii() for c in cell):
            return RowError("the row is not UTF-8")
        return {name: cell for name, cell in zip(self.header, row, strict=True) if cell != ""}

    def read(self, offset: int, length: int) -> dict[str, Any]:
        text = self.bytes_at(offset, length).decode("utf-8", "surrogateescape")
        lines = io.StringIO(text, newline="\n")  # cut as `lines` does: a text may hold other separators of lines
        row = next(csv.reader(lines, delimiter=self._delimiter, strict=True))
        found = self._fields(row)
        if isinstance(found, RowError):
            raise found
        return found


@dataclass(frozen=True)
class Manifest:
    """An open manifest. `digest` changes with its content; `typed`: numbers are numbers, not text."""

    name: str  # as the user gave it, or `standard input`
    kind: str
    source: LineFile
    digest: str
    base: Path  # clips lie beside or below
    typed: bool = True
    by_line: bool = False  # a row without an id is called after its line, otherwise after its number


def open_manifest(
    name: str,
    kind: str | None,
    work: Path,
    stdin: BinaryIO | None,
    ignore_unknown: bool,
    columns: Collection[str] = TEXT_COLUMNS,
    unpack: Callable[[bytes], str] | None = None,
) -> Manifest:
    """Opens the manifest of that name; InputError if there is none. Copies are made in the folder `work`. A table needs
    one of `columns`. `unpack` puts the bytes inside a Parquet file elsewhere, and says where."""
    if name == "-":
        return of_stdin(kind, work, stdin)
    path, kind = Path(name), checked_kind(name, kind)
    base = path if kind == "folder" else path.parent
    if kind == "folder":
        digest = digest_of_folder(path)
        return Manifest(name, kind, copied(folder_rows(path), digest, work), digest, base)
    digest = file_digest(path, "manifest")
    if kind == "parquet":
        return Manifest(name, kind, copied(parquet_rows(path, unpack), digest, work), digest, base)
    if kind in ("csv", "tsv"):
        table = Table(path, "," if kind == "csv" else "\t")
        refuse_columns(table, name, ignore_unknown, columns)
        return Manifest(name, kind, table, digest, base, typed=False)
    parse = {"jsonl": json_fields, "lines": line_fields, "ljspeech": ljspeech_fields}[kind]
    return Manifest(name, kind, RowLines(path, parse), digest, base, by_line=kind == "lines")


def checked_kind(name: str, kind: str | None) -> str:
    """The kind of a manifest that is there; InputError for one that is not."""
    path = Path(name)
    if not path.exists():
        raise InputError(f"manifest {name} not found", hint=f"ls {shlex.quote(str(path.parent))}")
    kind = kind or kind_of(path)
    if path.is_dir() != (kind == "folder"):
        wrong = "a folder" if path.is_dir() else "not a folder"
        raise InputError(f"manifest {name} is {wrong}", hint="omnitts help batch")
    return kind


def kind_of(path: Path) -> str:
    """The kind of a manifest by its suffix, and for .csv by its first line."""
    if path.is_dir():
        return "folder"
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise UsageError(f"unknown kind of manifest '{path.suffix or path.name}'", hint=instead(path))
    return "ljspeech" if kind == "csv" and looks_like_ljspeech(path) else kind


def instead(path: Path) -> str:
    """The hint for a file of no known kind."""
    if path.suffix.lower() in SPREADSHEETS:
        return "save it as CSV, with the columns id and text"
    kind = likely_kind(path)
    if kind == "binary":
        return "a manifest is a JSONL, CSV, TSV, Parquet or text file, or a folder of texts"
    if kind == "array":
        return f"jq -c '.[]' {shlex.quote(str(path))} | omnitts batch - -O DIR"
    return f"--manifest-format {kind}"


def likely_kind(path: Path) -> str:
    """What a file without a known suffix looks like; `array`: JSON that is not in lines; `binary`: not text."""
    head, line = beginning(path)
    marks = ((b"PAR1", "parquet"), (b"{", "jsonl"), (b"[", "array"))
    found = next((kind for mark, kind in marks if line.startswith(mark)), "binary" if no_text(head) else None)
    names = [{name.strip(b' "\r\n').lower() for name in line.split(mark)} for mark in (b",", b"\t")]
    tables = (kind for kind, header in zip(("csv", "tsv"), names, strict=True) if header & {b"text", b"input"})
    return found or next(tables, None) or ("ljspeech" if looks_like_ljspeech(path) else "lines")


def looks_like_ljspeech(path: Path) -> bool:
    """Whether the first line is `id|text|text` and not a header."""
    line = beginning(path)[1].decode("utf-8", "replace")
    names = [name.strip().strip('"') for name in line.split(",")]
    return line.count("|") in (1, 2) and not {"text", "input"} & set(names)


def beginning(path: Path) -> tuple[bytes, bytes]:
    """The first bytes of a file, and its first line without a byte order mark."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(0)
            return head, file.readline(LONGEST_LINE).removeprefix(BOM)
    except OSError as error:
        raise unreadable(path, error) from None


def refuse_columns(table: Table, name: str, ignore_unknown: bool, columns: Collection[str]) -> None:
    if not {*columns} & set(table.header):
        apart = len(table.header) == 1 and ";" in table.header[0]
        raise InputError(
            f"manifest {name} has no column 'text'",
            cause="its columns: " + ", ".join(table.header)[:200],
            hint="the columns of a CSV file are separated by commas: id,text"
            if apart
            else "the first line names the columns: id,text",
            where=(name, 1),
        )
    if len(set(table.header)) < len(table.header):
        raise InputError(f"manifest {name} has two columns of the same name", where=(name, 1), hint="rename one")
    if not ignore_unknown:
        refuse_unknown(table.header, name, 1)


def unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot read manifest {path}: {(error.strerror or str(error)).lower()}")


# ---- copies, of sources that cannot be read by offset


def copied(rows: Iterable[Mapping[str, Any]], digest: str, work: Path) -> RowLines:
    """The rows as a file of JSON lines; one that is there already is used."""
    path = work / f"rows-{digest[:24]}.jsonl"
    if not path.exists():
        with disk.new_file(path) as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=True).encode() + b"\n")
    return RowLines(path, json_fields)


def of_stdin(kind: str | None, work: Path, stdin: BinaryIO | None) -> Manifest:
    if kind not in (None, "jsonl", "lines", "ljspeech"):
        raise UsageError(f"standard input cannot be {kind}", hint="--manifest-format jsonl")
    if stdin is None or stdin.isatty():
        raise UsageError("standard input is a terminal", hint="jq -c '{id, text}' rows.json | omnitts batch - -O DIR")
    part = work / "stdin.part"
    digest, file = hashlib.sha256(), disk.File(part)
    try:
        while data := stdin.read(BLOCK):
            digest.update(data)
            file.write(data)
        file.sync()
    finally:
        file.close()
    path = work / f"rows-{digest.hexdigest()[:24]}.jsonl"
    disk.rename(part, path)
    parse = {"lines": line_fields, "ljspeech": ljspeech_fields}.get(kind or "", json_fields)
    source = RowLines(path, parse)
    return Manifest("standard input", kind or "jsonl", source, digest.hexdigest(), Path(), by_line=kind == "lines")


def texts_in(folder: Path) -> list[Path]:
    """The text files in a folder and below it, without hidden ones and without the reports of this command."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in TEXTS and path.is_file())
    seen = (path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    return sorted(path for path in seen if path.name not in disk.OURS or not (path.parent / disk.WORK).is_dir())


def digest_of_folder(folder: Path) -> str:
    """A digest of names, sizes and times, so that thousands of unchanged files need not be read."""
    digest = hashlib.sha256()
    for path in texts_in(folder):
        status = path.stat()
        digest.update(repr((str(path.relative_to(folder)), status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()


def folder_rows(folder: Path) -> Iterator[Mapping[str, Any]]:
    for path in texts_in(folder):
        with path.open("rb") as file:
            data = file.read(LONGEST_LINE + 1)
        name = path.relative_to(folder).with_suffix("").as_posix()
        form = TEXT_FORMATS.get(path.suffix.lower(), "text")
        text = data[:LONGEST_LINE].removeprefix(BOM).decode("utf-8", "surrogateescape")
        yield {"id": name, "text": text, "format": form}


def parquet_rows(path: Path, unpack: Callable[[bytes], str] | None) -> Iterator[Mapping[str, Any]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UsageError("parquet needs pyarrow, which is not installed", hint="pip install pyarrow") from None
    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=16 if unpack else 1024):
                for row in batch.to_pylist():
                    yield {name: plain(value, unpack) for name, value in row.items() if value is not None}
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read manifest {path}: {str(error).splitlines()[0][:160]}") from None


def plain(value: Any, unpack: Callable[[bytes], str] | None) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, dict):
        return {str(name): plain(one, unpack) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [plain(one, unpack) for one in value]
    if isinstance(value, bytes):
        return unpack(value) if unpack else ""
    return value if isinstance(value, str | int | float | bool) else str(value)
