"""Output at a URL: runs that are killed anywhere, and workers of a cluster, on a server that speaks S3."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from batch_child import OBJECTS, Fault
from corpus import KINDS, TOY, child, ended, forget, lines_of, made_whole, manifest, stored, sums, with_ray
from ray_workers import end, two_workers, workers_here

from omnitts_cli.errors import OutputError
from omnitts_cli.fleet.bucket import Bucket
from omnitts_cli.fleet.names import name_hash
from omnitts_cli.fleet.segments import FOLDER, records_of
from omnitts_cli.fleet.url_job import SentPlan, made_by_us

SHARDS = ("--shard-size", "100KB")


def killed_and_resumed(home: Path, s3: str, to: str, seed: int) -> None:
    draw, out = random.Random(seed), f"{s3}/{to}{seed}"
    for _ in range(draw.randint(1, 3)):
        op, most = draw.choice([("object", 30), ("any", 700)])
        plan = {"at": draw.randint(1, most), "op": op, "how": draw.choice(["kill", "half"])}
        done = child(out, plan, *SHARDS, "--to", to)
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        if draw.random() < 0.5:
            forget(home)
    done = child(out, None, *SHARDS, "--to", to)
    assert done.returncode == 0, done.stderr
    assert sums(out) == sums("whole"), f"seed {seed}"
    assert stored(out) == sorted(sums(out).values()), f"seed {seed}"


def test_a_killed_run_goes_on(home: Path, omnitts: Any, s3: str) -> None:
    made_whole(omnitts, 40)
    died = child(f"{s3}/out", {"at": 2, "op": "put_files", "how": "half"}, *SHARDS)
    assert died.returncode == -signal.SIGKILL
    done = omnitts("batch", "rows.jsonl", "-O", f"{s3}/out", *TOY, "--json").ended(0)
    assert 0 < done.json["spoken_now"] < 40  # what was committed is not made again
    assert sums(f"{s3}/out") == sums("whole") and stored(f"{s3}/out") == sorted(sums(f"{s3}/out").values())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("to", KINDS)
def test_twenty_runs_killed_anywhere_go_on(home: Path, omnitts: Any, s3: str, to: str) -> None:
    made_whole(omnitts, 150)
    for seed in range(20):
        killed_and_resumed(home, s3, to, seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("to", KINDS)
def test_a_failure_of_every_operation(omnitts: Any, monkeypatch: pytest.MonkeyPatch, s3: str, to: str) -> None:
    """The n-th operation on an object fails: the run ends with 8, and the next one has what is missing."""
    manifest(20)
    more = [*TOY, "--to", to, *SHARDS]
    assert omnitts("batch", "rows.jsonl", "-O", "whole", *TOY).code == 0
    at = 1
    while True:
        out, fault = f"{s3}/{at}", Fault(at, "object", "EIO")
        with monkeypatch.context() as patched:
            for name in OBJECTS:
                patched.setattr(Bucket, name, failing(fault.over(name, getattr(Bucket, name))))
            done = omnitts("batch", "rows.jsonl", "-O", out, *more)
        if fault.count < at:
            break
        assert done.code in (0, 8), (at, done.err)  # 0: the lock could not be removed
        again = omnitts("batch", "rows.jsonl", "-O", out, *more)
        assert again.code == 0 and sums(out) == sums("whole"), (at, again.err)
        assert stored(out) == sorted(sums(out).values()), at
        at += 1
    assert at > 10


def failing(real: Any) -> Any:
    def called(*arguments: Any) -> Any:
        try:
            return real(*arguments)
        except OSError as error:
            raise OutputError("cannot write the store", cause=str(error)) from None

    return called


# ---- workers


def published(out: str) -> int:
    bucket = Bucket(out)
    found = bucket.get_all([f"{FOLDER}/{name}" for name in bucket.sizes(FOLDER)])
    return sum(len(records_of(data)[0]) for data in found.values())


def wait_for(out: str, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline and published(out) < count:
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("to", KINDS)
def test_a_cluster_that_is_killed_goes_on(home: Path, omnitts: Any, s3: str, to: str, seed: int) -> None:
    """A worker, the command, or both are killed; the next run is on another machine."""
    pytest.importorskip("ray")
    manifest(300)
    draw, whom, out = random.Random(seed), ("worker", "driver", "both")[seed], f"{s3}/out"
    assert omnitts("batch", "rows.jsonl", "-O", "whole", *TOY).code == 0
    process = with_ray(out, draw.randint(1, 3), *SHARDS, "--to", to)
    wait_for(out, draw.randint(1, 150), process)
    if whom != "driver" and (found := workers_here()):
        os.kill(found[0], signal.SIGKILL)
    if whom != "worker":
        process.kill()
        process.wait()
        forget(home)
        process = with_ray(out, draw.randint(1, 3), *SHARDS, "--to", to)
    ended(process)
    assert sums(out) == sums("whole") and stored(out) == sorted(sums(out).values())
    done = omnitts("batch", "rows.jsonl", "-O", out, *TOY, "--to", to, "--json")  # without workers
    assert done.code == 0 and done.json["spoken_now"] == 0, done.err
    if to == "webdataset":
        assert {row["output"][:6] for row in lines_of(out).values()} == {"shard-"}


@pytest.mark.parametrize("to", [pytest.param("files", marks=pytest.mark.slow), "webdataset"])
def test_what_a_lost_worker_kept_is_spoken_again(
    omnitts: Any, s3: str, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    made_whole(omnitts, 70)
    actors = two_workers(monkeypatch, lambda actor, rows: actor.leases == 2)
    omnitts("batch", "rows.jsonl", "-O", f"{s3}/out", *TOY, "--to", to, "--ray", "local", "--json").ended(0)
    assert [actor.deaths for actor in actors] == [1, 1]  # the last one need not start again if the other does its rows
    assert sums(f"{s3}/out") == sums("whole") and stored(f"{s3}/out") == sorted(sums(f"{s3}/out").values())
    segments = Bucket(f"{s3}/out").sizes(FOLDER)
    assert all(name.startswith("000001-w") for name in segments) and len(segments) > 1
    end(actors)


def test_what_fresh_removes_and_a_machine_without_a_clip(memory: str, tmp_path: Path) -> None:
    plan = SentPlan(Bucket(memory), ("plan", "rows"), None, None, None, (), [str(tmp_path), "clips/a.wav"])  # type: ignore[arg-type]
    with pytest.raises(OutputError, match=r"does not see clips/a\.wav"):
        plan.opened(tmp_path)
    ours = ["manifest.jsonl", "shard-00001.tar", "part-00002.parquet", "a.flac", "a.codes.npy"]
    theirs = ["b.flac", "b.codes.npy", "shard-x", "notes.md"]
    assert sorted(made_by_us(ours + theirs, {name_hash("a.flac")})) == sorted(ours)
