"""What `omnitts batch` costs at a million rows: the check, a resume of finished rows, and memory. No GPU is needed.

python benchmarks/resume.py --rows 1000000 --folder FOLDER [--save benchmarks/results/NAME.json]

The corpus is made up: a manifest, a journal, and files of the recorded length without content. One row is missing;
the run that makes it is measured, in a process of its own, until its row reaches the engine, and to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROWS_AT_ONCE = 4096
WORDS = "the quick brown fox jumps over a lazy dog while seven old ships sail along quiet northern rivers".split()
OPTIONS = ["-m", "random:toy", "--max-frames", "8", "--seed", "1", "-t", "1", "--progress", "none", "--json"]


def write_manifest(path: Path, rows: int) -> None:
    draw = random.Random(0)
    with path.open("w") as file:
        for number in range(rows):
            text = f"{number} " + " ".join(draw.choices(WORDS, k=12)) + "."
            file.write(json.dumps({"id": f"utterance-{number:07}", "text": text}) + "\n")


def finish(manifest: Path, out: Path) -> None:
    """A journal and files as if all rows but the last had been spoken."""
    from omnitts_cli.fleet import job, journal, names
    from omnitts_cli.fleet.plan import RowPlan

    work = out / job.WORK
    found: list[RowPlan] = []
    real = job.BatchJob._plan

    def kept(self: job.BatchJob, *arguments: Any) -> RowPlan:
        found.append(real(self, *arguments))
        raise SystemExit  # the plan is written; nothing is spoken

    job.BatchJob._plan = kept  # type: ignore[method-assign]
    command(manifest, out, quiet=True)
    job.BatchJob._plan = real  # type: ignore[method-assign]
    plan = found[0]
    mask = job.PlannedModel.of(plan.models[0], {"device": "auto", "dtype": "auto", "threads": 1}).mask
    details = json.dumps(
        {"bytes": 20_000, "sha256": "0" * 64, "format": "flac", "sample_rate": 8000, "model": "random:toy",
         "device": "cpu", "dtype": "float32", "audio_s": 0.64, "frames": 8, "stopped": "limit", "seed": 5, "tries": 1,
         "guard_hits": 0, "voice": "ann", "loudness_lufs": -23.0, "peak_dbfs": -9.0}
    )[1:]  # fmt: skip
    for number in range(256):
        (out / f"{number:02x}").mkdir(exist_ok=True)
    book = journal.RowJournal(work)
    group = []
    for index in range(plan.count - 1):
        path = plan.naming.path(f"utterance-{index:07}", False)
        length = 20_000 + index % 1000
        descriptor = os.open(out / path, os.O_WRONLY | os.O_CREAT)
        os.ftruncate(descriptor, length)
        os.close(descriptor)
        key = plan.rows["key"][index] ^ mask
        line = f'{{"output": "{path}", {details}'.encode()
        group.append(
            journal.Entry((int(key[0]), int(key[1])), names.name_hash(path), index, journal.DONE, line, length=length)
        )
        if len(group) == ROWS_AT_ONCE:
            book.append(group)
            group = []
    book.append(group)
    book.close()


def command(manifest: Path, out: Path, *more: str, quiet: bool = False) -> int:
    from omnitts_cli.cli.app import run

    return run(["batch", str(manifest), "-O", str(out), *OPTIONS, *more, *(["-q"] if quiet else [])])


def measured(manifest: Path, out: Path, more: list[str]) -> None:
    """One run in this process; prints when its rows began, and the memory then and at the end."""
    from omnitts_cli.fleet import job, run

    times: dict[str, float] = {}
    began, cpu = time.perf_counter(), processor_s()
    plan, load, speak = job.BatchJob._plan, run.BatchRun.speak, job.BatchJob._speak

    def planned(self: job.BatchJob, *arguments: Any) -> Any:
        found = plan(self, *arguments)
        times["plan_s"] = time.perf_counter() - began
        times["plan_cpu_s"] = processor_s() - cpu
        return found

    def speaking(self: job.BatchJob, *arguments: Any) -> None:
        times.setdefault("subtracted_s", time.perf_counter() - began)
        times.setdefault("subtracted_cpu_s", processor_s() - cpu)  # what it takes on a quiet machine
        times.setdefault("before_model_mb", memory())
        speak(self, *arguments)

    def rows(self: run.BatchRun, *arguments: Any) -> None:
        times.setdefault("first_row_s", time.perf_counter() - began)
        times.setdefault("first_row_mb", memory())
        load(self, *arguments)
        times["spoken_mb"] = memory()

    job.BatchJob._plan, job.BatchJob._speak, run.BatchRun.speak = planned, speaking, rows  # type: ignore[method-assign]
    code = command(manifest, out, *more)
    times["end_s"] = time.perf_counter() - began
    times["end_cpu_s"] = processor_s() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    shown = {name: round(value, 2) for name, value in times.items()}
    print(json.dumps({"code": code, **shown, "peak_mb": round(peak, 1)}), file=sys.stderr)


def processor_s() -> float:
    """Of this process and the children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def memory() -> float:
    """Resident memory of this process now, in MiB."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def apart(manifest: Path, out: Path, *more: str) -> dict[str, Any]:
    """The same in a process of its own."""
    arguments = [
        sys.executable,
        __file__,
        "--measure",
        str(manifest),
        "--folder",
        str(out),
        *map("--more={}".format, more),
    ]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    try:
        found: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
        found["spoken"] = json.loads(done.stdout.splitlines()[0])["spoken_now"]
    except (ValueError, IndexError):
        raise SystemExit(done.stdout + done.stderr) from None
    print(more, found, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--more", action="append", default=[])
    asked = parser.parse_args()
    if asked.measure:
        return measured(asked.measure, asked.folder, asked.more)
    asked.folder.mkdir(parents=True, exist_ok=True)
    small, large = asked.folder / "small.jsonl", asked.folder / "large.jsonl"
    write_manifest(small, 50)
    write_manifest(large, asked.rows)
    found: dict[str, Any] = {"rows": asked.rows, "manifest_bytes": large.stat().st_size}
    found["engine alone (50 rows)"] = apart(small, asked.folder / "small")
    found["all rows new, 50 of them spoken"] = apart(large, asked.folder / "new", "--limit=50")
    began = time.perf_counter()
    if not (asked.folder / "large" / "finished").exists():
        finish(large, asked.folder / "large")
        (asked.folder / "large" / "finished").touch()
    print(f"made up in {time.perf_counter() - began:.0f} s", flush=True)
    found["one row missing"] = apart(large, asked.folder / "large")
    found["nothing missing"] = apart(large, asked.folder / "large")
    if asked.save:
        asked.save.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
