"""Runs with --exact that are killed at a random commit: the same command again makes the files of an undisturbed run.

On a GPU only `--exact` promises that: without it, rounding depends on which rows share a batch.
"""

import functools
import json
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import warm
from corpus import WORDS, failing_batch, sums
from hopper import HOPPER
from patience import LONG_S, eventually

from omnitts_cli.fleet import journal
from omnitts_cli.fleet.run import MOST_UNCOMMITTED
from omnitts_cli.kernels.cpu import build

CARD = ("-m", "random:1.7b-customvoice", "-d", "cuda", "-b", "16")
CPU = ("-m", "random:toy", "-d", "cpu", "-b", "4", "-t", "1")


def write_rows(count: int) -> None:
    draw = random.Random(3)
    lines = [
        {"id": f"r{n}", "text": " ".join(draw.choices(WORDS, k=9)) + ".", "max_frames": draw.randint(6, 24)}
        for n in range(count)
    ]
    Path("rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def started(out: str, options: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """`omnitts batch` in a process that notes every row that it makes in the file `made-OUT`."""
    command = [*failing_batch(None, f"made-{out}"), "rows.jsonl", "-O", out, "--exact"]
    with Path(f"{out}.err").open("ab") as err:
        start = subprocess.Popen if options == CARD else warm.Process
        return start([*command, "--seed", "5", "-q", *options], stdout=err, stderr=err)


def records(out: str) -> int:
    path = Path(out, ".omnitts", "journal-main.bin")
    return path.stat().st_size // journal.SIZE if path.exists() else 0


def killed(out: str, at: int, wait_s: float, options: tuple[str, ...]) -> bool:
    """A run that is killed when so many rows are committed, or a moment later; False if it has ended before."""
    process = started(out, options)
    eventually(lambda: records(out) >= at or process.poll() is not None)
    time.sleep(wait_s)
    process.kill()
    return process.wait(LONG_S) == -signal.SIGKILL


def killed_and_resumed(seed: int, rows: int, options: tuple[str, ...]) -> int:
    """Returns how often the run was killed before its last rows."""
    draw, out, deaths = random.Random(seed), f"out{seed}", 0
    for _ in range(1 + (seed % 4 == 0)):
        done = records(out)
        at = done + draw.randint(1, max(7 * (rows - done) // 10, 1))
        deaths += killed(out, at, draw.choice([0.0, draw.random() / 10]), options)
    process = started(out, options)
    assert process.wait(LONG_S) == 0, Path(f"{out}.err").read_text()[-3000:]
    made = Counter(Path(f"made-{out}").read_text().split())
    assert len(made) == rows and sum(made.values()) - rows <= MOST_UNCOMMITTED * deaths
    return deaths


@functools.cache
def undisturbed(rows: int, options: tuple[str, ...]) -> dict[str, str]:
    process = started("whole", options)
    assert process.wait(LONG_S) == 0, Path("whole.err").read_text()[-3000:]
    return sums("whole")


@pytest.mark.skipif(not build.library().exists(), reason="--exact needs the compiled library")
def test_a_killed_run_goes_on(omnitts: Any) -> None:
    write_rows(60)
    killed_and_resumed(1, 60, CPU)
    assert omnitts("batch", "rows.jsonl", "-O", "whole", "--exact", "--seed", "5", *CPU).code == 0
    assert sums("out1") == sums("whole") and len(set(sums("whole").values())) == 60


@pytest.mark.gpu
@pytest.mark.timeout(600)
@pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU")
@pytest.mark.parametrize("seed", range(20))
def test_a_killed_run_on_a_card_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The user's cache of compiled kernels is used: without it each process would compile them for a minute."""
    monkeypatch.chdir(tmp_path)
    write_rows(400)
    expected = undisturbed(400, CARD)
    assert killed_and_resumed(seed, 400, CARD) >= 1
    assert sums(f"out{seed}") == expected
