"""Report: the results and conditions of a campaign, saved and loaded as JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from omnitts_cli import files
from omnitts_cli.audio.target import put
from omnitts_cli.bench.stats import LoadLevel
from omnitts_cli.errors import InputError, OutputError
from omnitts_cli.parse import ParseError, json_object

SCHEMA = 1
LARGEST_BYTES = 64 * 2**20
DIGITS = 6


@dataclass
class Report:
    """The top level of the file."""

    created: str
    command: str
    model: str
    model_sha256: str | None
    device: str | None
    dtype: str | None
    versions: dict[str, str]
    seed: int
    workload: dict[str, Any]
    levels: list[LoadLevel]
    ratios: list[dict[str, Any]] = field(default_factory=list)
    start: dict[str, float | None] = field(default_factory=dict)  # seconds to load and to start

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **rounded(asdict(self))}


def rounded(value: Any) -> Any:
    """Rounds to six digits; NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


RATIOS = {
    "rtf": lambda level: level.rtf.get("median"),
    "e2el": lambda level: level.e2el_ms.get("median"),
    "ttfp": lambda level: level.ttfp_ms.get("median"),
    "seconds_per_audio_s": lambda level: 1 / level.audio_throughput if level.audio_throughput else None,
}


def ratios(levels: Sequence[LoadLevel]) -> list[dict[str, Any]]:
    """How many times longer each variant takes than the main target, level by level."""
    main = {(level.concurrency, level.rate): level for level in levels if level.variant is None}
    found = []
    for level in levels:
        other = main.get((level.concurrency, level.rate))
        if level.variant is None or other is None:
            continue
        row: dict[str, Any] = {"variant": level.variant, "concurrency": level.concurrency, "rate": level.rate}
        for name, value in RATIOS.items():
            mine, its = value(other), value(level)
            row[name] = its / mine if mine and its is not None else None
        found.append(row)
    return found


def text(report: Report) -> str:
    """The content of the file."""
    return json.dumps(report.to_json(), ensure_ascii=False, allow_nan=False, indent=1)


def check(path: Path, option: str) -> None:
    """Checks before measuring whether the file can be written."""
    if path.is_dir():
        raise OutputError(f"cannot write {path}", cause="it is a folder", hint=f"{option} FILE")
    if not path.parent.is_dir():
        raise OutputError(f"cannot write {path}", cause="its folder does not exist", hint=f"mkdir -p {path.parent}")


def save(path: Path, report: Report, *, append: bool = False) -> None:
    """Writes the file, or appends a line to it."""
    if not append:  # the previous content is replaced only by a complete file
        return put(path, (text(report) + "\n").encode())
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(report.to_json(), ensure_ascii=False, allow_nan=False) + "\n")
    except OSError as error:
        raise OutputError(f"cannot write {path}", cause=error.strerror, hint="--save another place") from None


def read(path: Path) -> Report:
    """Reads a saved report; from a file with a line per report, the last one."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise InputError(f"{path} is larger than {LARGEST_BYTES // 2**20} MiB: not a benchmark report")
        words = files.read_text(path, files.LARGE)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a JSON file") from None
    except OSError as error:
        raise InputError(
            f"cannot read {path}", cause=error.strerror, hint="--compare FILE   with a file that --save wrote"
        ) from None
    table = parsed(words, path)
    version = table.get("schema")
    if version != SCHEMA:
        raise InputError(
            f"{path} has the schema {version!r}; this version reads {SCHEMA}",
            hint="measure again, or use a newer omnitts",
        )
    try:
        return report_of(table)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path} is not a complete report",
            cause=f"{type(error).__name__}: {error}",
            hint="omnitts bench --save FILE",
        ) from None


def parsed(words: str, path: Path) -> dict[str, Any]:
    lines = [line for line in words.splitlines() if line.strip()]
    for candidate in (words, lines[-1] if lines else ""):
        with suppress(ParseError):
            return json_object(candidate)
    raise InputError(f"{path} is not a JSON file", hint="omnitts bench --save FILE   writes one")


def report_of(table: Mapping[str, Any]) -> Report:
    """The report in the object of a file. Missing newer fields get their defaults."""
    known = {field.name for field in fields(Report)}
    values = {name: value for name, value in table.items() if name in known}
    return Report(**(values | {"levels": [level_of(row) for row in table["levels"]]}))


def level_of(row: Mapping[str, Any]) -> LoadLevel:
    known = {field.name for field in fields(LoadLevel)}
    values = {name: value for name, value in row.items() if name in known}
    values.setdefault("concurrency", None)
    values.setdefault("rate", None)
    found = LoadLevel(**values)
    for name in ("e2el_ms", "ttfp_ms", "audible_ms", "rtf"):
        getattr(found, name).get("mean")
    return found
