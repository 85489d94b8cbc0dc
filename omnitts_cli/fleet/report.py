"""The results of a run besides the sound: manifest.jsonl, report.md and report.png."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli import files
from omnitts_cli.errors import Notice
from omnitts_cli.fleet import disk
from omnitts_cli.fleet.journal import FAILED, STATUS, Lookup
from omnitts_cli.fleet.plan import BAD, RowPlan, beside
from omnitts_cli.fleet.run import CorpusRun, Pace
from omnitts_cli.fleet.store import Store, hex_key
from omnitts_cli.parse import json_object
from omnitts_cli.settings.corpus import Verification
from omnitts_cli.terminal.progress import duration

SCHEMA = 1
MANIFEST, REPORT, PICTURE = "manifest.jsonl", "report.md", "report.png"
SHOWN_FAILURES = 50
SHOWN_NOTICES, MOST_NOTICES = 20, 1000  # of different ones; counted
TO_CORRECT = ("usage", "bad_input", "not_available")  # failures that come again, such as an unknown voice
COUNTS = ("rows", "spoken", "failed", "bad", "unverified", "left", "noticed", "audio_s")
LENGTH_BINS = np.concatenate([np.arange(0, 31), [45, 60, 120, 300, 3600, np.inf]])
WER_BINS = np.linspace(0, 1, 21)
AT_ONCE = 1 << 20  # bytes written together
STYLE = "matplotlibrc"  # which may be someone else's


@dataclass
class Summary:
    """The rows of a manifest, counted."""

    rows: int = 0
    spoken: int = 0
    failed: int = 0
    bad: int = 0  # of those that failed: another try would fail too
    unverified: int = 0
    left: int = 0  # neither spoken nor failed: --limit, or a run that was interrupted
    audio_s: float = 0.0
    noticed: int = 0  # spoken rows with notices
    notices: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    tries: Counter[int] = field(default_factory=Counter)
    lengths: np.ndarray = field(default_factory=lambda: np.zeros(len(LENGTH_BINS) - 1, np.int64))
    wer: np.ndarray = field(default_factory=lambda: np.zeros(len(WER_BINS) - 1, np.int64))
    wer_sum: float = 0.0
    checked: int = 0
    first_failures: list[str] = field(default_factory=list)
    pace: Pace = field(default_factory=Pace)
    written: bool = True
    exact: str | None = None  # with --exact: the fingerprint of the device

    def add(self, line: dict[str, Any], number: int) -> None:
        self.rows += 1
        status = line["status"]
        self.failed += status == "failed"
        self.bad += "key" not in line or line.get("code") in TO_CORRECT
        self.unverified += status == "unverified"
        if status != "ok":
            self._note_failure(line, number)
        if status == "failed":
            return
        self.spoken += 1
        seconds = float(line["audio_s"])
        self.audio_s += seconds
        self.lengths[np.searchsorted(LENGTH_BINS, seconds, "right") - 1] += 1
        self.tries[int(line["tries"])] += 1
        self.noticed += "notices" in line
        for words in line.get("notices", ()):
            if words in self.notices or len(self.notices) < MOST_NOTICES:
                self.notices[words] += 1
        if line.get("wer") is not None:
            self.checked += 1
            self.wer_sum += line["wer"]
            self.wer[min(int(line["wer"] * 20), 19)] += 1

    def _note_failure(self, line: dict[str, Any], number: int) -> None:
        self.codes[str(line.get("code"))] += 1
        if len(self.first_failures) < SHOWN_FAILURES:
            who = f"line {number}, id '{line['id']}'" if line["id"] else f"line {number}"
            self.first_failures.append(f"{who}: {line.get('message')}")


def write_results(
    out: Path, run: CorpusRun, lookup: Lookup, checks: Verification, tell: Callable[[Notice], None]
) -> Summary:
    """Writes the output manifest and the report, unless nothing has changed since they were written."""
    run.pace.end()
    stamp = {"plan": run.plan.path.name, "records": len(lookup.records), "store": type(run.store).__name__}
    kept = run.work / "written.json"
    summary = Summary(pace=run.pace)
    if (before := unchanged(kept, stamp, out)) is not None:
        summary.written = False
        for name in COUNTS:
            setattr(summary, name, before.get(name, 0))
        summary.first_failures = before["first_failures"]
        summary.notices = Counter(dict(before.get("notices", ())))
        return summary
    with disk.new_file(out / MANIFEST, run.work / f"{MANIFEST}.part") as part:
        held: list[bytes] = []
        size = 0
        for number, line in lines_of(run, lookup):
            if line is None:
                summary.rows, summary.left = summary.rows + 1, summary.left + 1
                continue
            summary.add(line, number)
            held.append(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            size += len(held[-1])
            if size > AT_ONCE:
                part.write(b"".join(held))
                held, size = [], 0
        part.write(b"".join(held))
    picture = drawn(summary, out / PICTURE, tell)
    disk.put(out / REPORT, in_words(summary, run.plan, checks, picture).encode())
    counts = {name: getattr(summary, name) for name in COUNTS}
    size = (out / MANIFEST).stat().st_size
    shown = {"first_failures": summary.first_failures, "notices": summary.notices.most_common(SHOWN_NOTICES)}
    disk.put(kept, json.dumps({**stamp, "bytes": size, **counts, **shown}).encode())
    return summary


def unchanged(kept: Path, stamp: dict[str, Any], out: Path) -> dict[str, Any] | None:
    """What was written before, if it still holds."""
    try:
        before = json_object(files.read(kept, files.LARGE))
        same = all(before.get(name) == value for name, value in stamp.items())
        return before if same and (out / MANIFEST).stat().st_size == before["bytes"] else None
    except (OSError, ValueError, KeyError):
        return None


def lines_of(run: CorpusRun, lookup: Lookup) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """(line in the manifest, line of the output manifest) of each row, in order; None for a row that is left."""
    plan, keys, bad = run.plan, run.keys, BadRows(run.plan)
    records = lookup.of_names(plan.rows["name"])
    for index in range(plan.count):
        place = plan.rows[index]
        number = int(place["line"])
        if place["state"] & BAD:
            found = bad.of(index + 1)
            yield number, {"schema": SCHEMA, "id": found["id"], "row": index + 1, "status": "failed",
                           "code": found["code"], "message": found["message"]}  # fmt: skip
            continue
        record = int(records[index])
        if record < 0 or (lookup.records["key"][record] != keys[index]).any():
            yield number, None
            continue
        yield number, line_of(plan, run.store, lookup, index, record)
    bad.close()


def line_of(plan: RowPlan, store: Store, lookup: Lookup, index: int, record: int) -> dict[str, Any]:
    """One line of the output manifest."""
    row, held = plan.row(index), lookup.records[record]
    details = json.loads(lookup.details(record))
    output, code, message = details.pop("output"), details.pop("code", None), details.pop("message", None)
    line = {"schema": SCHEMA, "id": row.id, "row": index + 1, "key": hex_key(held["key"])}
    if held["state"] != FAILED:
        line |= store.where(held, output)
    line |= details
    if row.tags is not None:
        line["tags"] = row.tags
    line["status"] = STATUS[int(held["state"])]
    if code is not None:
        line |= {"code": code, "message": message}
    return line


class BadRows:
    """What is wrong with bad rows, looked up by number; they may be a million."""

    def __init__(self, plan: RowPlan) -> None:
        self._file = beside(plan.path, "bad").open("rb")
        numbers, offsets, at = [], [], 0
        for line in self._file:
            numbers.append(json.loads(line)["row"])
            offsets.append(at)
            at += len(line)
        order = np.argsort(np.array(numbers, np.int64), kind="stable")
        self._numbers = np.array(numbers, np.int64)[order]
        self._offsets = np.array(offsets, np.int64)[order]

    def of(self, number: int) -> dict[str, Any]:
        at = int(np.searchsorted(self._numbers, number))
        self._file.seek(int(self._offsets[at]))
        found: dict[str, Any] = json.loads(self._file.readline())
        return found

    def close(self) -> None:
        self._file.close()


def in_words(summary: Summary, plan: RowPlan, checks: Verification, picture: bool) -> str:
    """report.md"""
    pace = summary.pace
    rows = [
        ("rows", f"{summary.rows:,}"),
        ("spoken", f"{summary.spoken:,}"),
        ("failed", f"{summary.failed:,}"),
        ("length of speech", duration(summary.audio_s)),
    ]
    if summary.left:
        rows.append(("not spoken yet", f"{summary.left:,}"))
    if summary.noticed:
        rows.append(("with notices", f"{summary.noticed:,}"))
    if checks.verify != "none":
        rows.append(("did not pass verification", f"{summary.unverified:,}"))
        if summary.checked:
            rows.append(("mean word error rate", f"{summary.wer_sum / summary.checked:.3f}"))
    if pace.done and pace.audio_s:
        rows += [
            ("this run: rows", f"{pace.done - pace.failed:,} spoken, {pace.copied:,} copied"),
            ("this run: time", duration(pace.wall_s)),
            ("this run: speed", f"{pace.audio_s / pace.wall_s:.1f}× realtime"),
            ("this run: RTF", f"{pace.wall_s / pace.audio_s:.4f}"),
        ]
        if pace.full and pace.full[0] > 0 and pace.full[1] > 0:
            seconds, audio = pace.full
            rows.append(("this run: speed until the last row began", f"{audio / seconds:.1f}× realtime"))
            rows.append(("this run: time after the last row began", f"{pace.wall_s - seconds:.1f} s"))
    parts = [
        f"# {plan.manifest.name}",
        "",
        "| | |",
        "|---|---:|",
        *(f"| {name} | {value} |" for name, value in rows),
        "",
    ]
    if picture:
        parts += [f"![Lengths, speed, word error rates and failures]({PICTURE})", ""]
    parts += table("Takes", ["takes of a row", "rows"], sorted(summary.tries.items()))
    parts += table("Failures by code", ["code", "rows"], summary.codes.most_common())
    parts += table("Notices", ["notice", "rows"], [
        (words.replace("|", "\\|"), count) for words, count in summary.notices.most_common(SHOWN_NOTICES)
    ])  # fmt: skip
    if summary.first_failures:
        shown = f" (the first {SHOWN_FAILURES})" if sum(summary.codes.values()) > SHOWN_FAILURES else ""
        parts += [f"## Rows that failed{shown}", "", *(f"- {one}" for one in summary.first_failures), ""]
    return "\n".join(parts)


def table(title: str, head: Sequence[str], rows: Sequence[tuple[Any, Any]]) -> list[str]:
    if not rows:
        return []
    lines = [f"| {one} | {other:,} |" for one, other in rows]
    return [f"## {title}", "", f"| {head[0]} | {head[1]} |", "|---|---:|", *lines, ""]


def drawn(summary: Summary, path: Path, tell: Callable[[Notice], None]) -> bool:
    """Draws report.png; False without matplotlib."""
    if os.path.lexists(STYLE):
        tell(Notice(f"{PICTURE} is not drawn: matplotlib would read {STYLE} in this folder", plain=True))
        return False
    try:
        import matplotlib
    except ImportError:
        with suppress(OSError):
            os.unlink(path)
        return False
    matplotlib.use("Agg")  # to a file, without a window
    from matplotlib import pyplot

    figure, ((lengths, speed), (errors, failures)) = pyplot.subplots(2, 2, figsize=(10, 7), layout="constrained")
    few = summary.lengths[:30]
    lengths.bar(np.arange(30) + 0.5, few, width=0.9)
    longer = int(summary.lengths[30:].sum())
    lengths.set(title=f"length of rows; {longer:,} longer than 30 s", xlabel="seconds", ylabel="rows")
    curve = summary.pace.curve
    if len(curve) > 1:
        times, made = np.array(curve).T
        step = max(1, len(curve) // 60)
        rate = np.diff(made[::step]) / np.maximum(np.diff(times[::step]), 1e-6)
        speed.plot(times[::step][1:], rate)
    speed.set(title="speed of this run", xlabel="seconds", ylabel="audio seconds per second", ylim=(0, None))
    if summary.checked:
        errors.bar(WER_BINS[:-1] + 0.025, summary.wer, width=0.045)
    errors.set(title=f"word error rate of {summary.checked:,} rows", xlabel="WER", ylabel="rows")
    named = summary.codes.most_common(8) or [("none", 0)]
    failures.barh([name for name, _ in named], [count for _, count in named])
    failures.set(title="failures by code", xlabel="rows")
    drawing = BytesIO()
    figure.savefig(drawing, format="png", dpi=110)
    pyplot.close(figure)
    disk.put(path, drawing.getvalue())
    return True
