"""Runs that are killed or that fail: the same command again gives what an undisturbed run gives."""

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch_child import OPERATIONS, Fault
from corpus import TOY, child, made_whole, manifest, stored, sums
from patience import LONG_S, eventually

from omnitts_cli.fleet import disk, journal
from omnitts_cli.fleet.run import MOST_UNCOMMITTED, Pace

ROWS = 150


def killed_and_resumed(seeds: range, undisturbed: dict[str, str], operations: int, *more: str) -> None:
    for seed in seeds:
        draw = random.Random(seed)
        Path("made").unlink(missing_ok=True)
        out, deaths = f"out{seed}{len(more)}", 0
        for _ in range(draw.randint(1, 3)):
            how = draw.choice(["kill", "half"])
            done = child(out, {"at": draw.randint(1, operations), "op": "any", "how": how}, *more)
            deaths += done.returncode == -signal.SIGKILL
            assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        done = child(out, None, *more)
        assert done.returncode == 0, done.stderr
        assert sums(out) == undisturbed, f"seed {seed}"
        made = Counter(Path("made").read_text().split())  # over all runs so far
        assert made.total() - len(made) <= MOST_UNCOMMITTED * deaths, f"seed {seed}"


OPERATIONS_A_ROW = 6  # an open, a few writes, a sync and a rename


def test_a_killed_run_goes_on(home: Path, omnitts: Any) -> None:
    made_whole(omnitts, ROWS)
    died = child("out", {"at": 700, "op": "any", "how": "half"})
    assert died.returncode == -signal.SIGKILL
    before = len(Path("made").read_text().split())
    done = omnitts("batch", "rows.jsonl", "-O", "out", *TOY, "--json")
    assert done.code == 0 and sums("out") == sums("whole")
    assert before + done.json["spoken_now"] - ROWS <= MOST_UNCOMMITTED
    assert 0 < done.json["committed_s"] <= done.json["wall_s"]  # after it comes the report


def test_a_killed_run_into_parquet_goes_on(home: Path, omnitts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed among the rows, and while a shard becomes a Parquet part."""
    manifest(70)
    more, renamed, rename = ("--to", "parquet", "--shard-size", "100KB"), list[str](), disk.rename
    with monkeypatch.context() as patched:
        patched.setattr(disk, "rename", lambda old, new: renamed.append(new.name) or rename(old, new))
        assert omnitts("batch", "rows.jsonl", "-O", "whole", *TOY, *more).code == 0
    first = renamed.index("part-00000.parquet") + 1
    for at, op, how in ((300, "write", "half"), (first, "rename", "kill")):
        died = child(op, {"at": at, "op": op, "how": how}, *more)
        assert died.returncode == -signal.SIGKILL
        assert len(list(Path(op).glob(".part-*.parquet.part"))) == (op == "rename")
        assert omnitts("batch", "rows.jsonl", "-O", op, *TOY, *more).code == 0
        assert sums(op) == sums("whole")
        assert stored(op) == sorted(sums("whole").values())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("more", [(), ("--to", "webdataset"), ("--to", "parquet")], ids=["files", "tar", "parquet"])
def test_twenty_runs_killed_anywhere_go_on(home: Path, more: tuple[str, ...]) -> None:
    manifest(ROWS)
    assert child("whole", None, *more).returncode == 0
    killed_and_resumed(range(20), sums("whole"), ROWS * OPERATIONS_A_ROW, *more)


def faulted(omnitts: Any, monkeypatch: pytest.MonkeyPatch, out: str, fault: Fault) -> Any:
    """A run in which an operation on the disk fails."""
    with monkeypatch.context() as patched:
        for name in OPERATIONS:
            patched.setattr(disk, name, fault.over(name, getattr(disk, name)))
        return omnitts("batch", "rows.jsonl", "-O", out, *TOY)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("how", ["EIO", "ENOSPC"])
def test_a_fault_at_every_operation(omnitts: Any, monkeypatch: pytest.MonkeyPatch, op: str, how: str) -> None:
    """The n-th open, write, fsync or rename fails: the run ends with 8, and the next one has what is missing."""
    made_whole(omnitts, 20)
    undisturbed, at = sums("whole"), 1
    while (done := faulted(omnitts, monkeypatch, f"out{at}", fault := Fault(at, op, how))) and fault.count >= at:
        assert done.code == 8 and "cannot write" in done.err, (at, done.err)
        assert omnitts("batch", "rows.jsonl", "-O", f"out{at}", *TOY).code == 0
        assert sums(f"out{at}") == undisturbed
        at += 1 if at < 40 else 7
    assert at > 20


@pytest.mark.parametrize(("op", "at", "how"), [("write", 9, "EIO"), ("fsync", 12, "ENOSPC"), ("rename", 5, "EIO")])
def test_a_fault_ends_the_run_with_8(omnitts: Any, monkeypatch: pytest.MonkeyPatch, op: str, at: int, how: str) -> None:
    manifest(20)
    done = faulted(omnitts, monkeypatch, "out", Fault(at, op, how))
    assert done.code == 8 and "cannot write" in done.err
    if how == "ENOSPC":
        assert "bytes are free" in done.err and "run the same command again" in done.err
    assert omnitts("batch", "rows.jsonl", "-O", "out", *TOY).code == 0
    assert len(sums("out")) == 20


def test_ctrl_c_keeps_finished_rows(home: Path, started: Any) -> None:
    manifest(200)
    process = started("batch", "rows.jsonl", "-O", "out", *TOY)
    records = Path("out/.omnitts/journal-main.bin")
    eventually(lambda: records.exists() and records.stat().st_size)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, err
    assert b"the same command continues" in err
    kept = len(journal.read(records))
    assert 0 < kept < 200
    assert child("out", None).returncode == 0
    assert len(sums("out")) == 200 and len(Path("made").read_text().split()) == 200 - kept


def test_ctrl_c_before_all_threads_are_started(omnitts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest(20)
    plain = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if self.name == "omnitts row 2":
            os.kill(os.getpid(), signal.SIGINT)
        plain(self)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        done = omnitts("batch", "rows.jsonl", "-O", "out", *TOY)
    assert done.code == 130
    assert done.err.splitlines()[-1] == "interrupted; finished rows are kept, and the same command continues"
    assert omnitts("batch", "rows.jsonl", "-O", "out", *TOY).code == 0 and len(sums("out")) == 20


def test_rows_go_longest_first_within_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from omnitts_cli.fleet import run

    monkeypatch.setattr(run, "WINDOW", 3)
    plan: Any = SimpleNamespace(rows={"expected": np.array([1.0, 5.0, 3.0, 9.0, 2.0], np.float32)})
    assert list(run.in_order(plan, np.arange(5))) == [1, 2, 0, 3, 4]


def test_the_estimate_follows_the_lengths_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.perf_counter()
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    pace = Pace(rows=10, expected_s=100.0, began=now - 10.0)
    assert pace.eta_s is None
    pace.audio_s, pace.expected_done_s = 50.0, 25.0  # texts become twice the sound that was expected
    assert pace.eta_s == pytest.approx(30.0, rel=0.01)
    for _ in range(2000):
        pace.mark()
    assert len(pace.curve) <= 801


def test_a_second_run_on_one_folder_is_refused(omnitts: Any) -> None:
    manifest(2)
    Path("out/.omnitts").mkdir(parents=True)
    lock = disk.Lock(Path("out/.omnitts"))
    omnitts("batch", "rows.jsonl", "-O", "out", *TOY).ended(8, f"in use by process {os.getpid()}")
    lock.release()
    assert omnitts("batch", "rows.jsonl", "-O", "out", *TOY).code == 0


def test_the_time_of_a_run_stands_still_at_its_end() -> None:
    pace = Pace()
    pace.begin()
    pace.end()
    assert pace.wall_s == pace.wall_s > 0
