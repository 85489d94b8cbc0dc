"""omnitts batch --ray on a real local cluster: the same files whatever the workers, and whoever is killed."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus import ROOT, TOY, ended, made_whole, manifest, stored, sums, with_ray
from patience import eventually
from ray_workers import Actor, end, two_workers, workers_here

from omnitts_cli.errors import DeviceError
from omnitts_cli.fleet import cluster, journal
from omnitts_cli.fleet.journal import DONE, Entry, Lookup, RowJournal


def records(out: str) -> int:
    return sum(path.stat().st_size // journal.SIZE for path in Path(out, ".omnitts").glob("journal-*.bin"))


def wait_for(out: str, count: int, process: subprocess.Popen[bytes]) -> bool:
    """Waits until so many rows are committed; False if the run has ended before."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if records(out) >= count:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.timeout(300)
def test_workers_make_what_one_process_makes_though_one_is_killed(home: Path, omnitts: Any) -> None:
    pytest.importorskip("ray")
    made_whole(omnitts, 120)
    process = with_ray("out", 2)
    if wait_for("out", 20, process) and (found := workers_here()):
        os.kill(found[0], signal.SIGKILL)
    ended(process)
    assert sums("out") == sums("whole")
    assert Path("out/manifest.jsonl").read_bytes() == Path("whole/manifest.jsonl").read_bytes()
    assert [path.name for path in Path("out/.omnitts").glob("journal-*")] == ["journal-main.bin"]


def disturbed(out: str, name: str, draw: random.Random, whom: str, rows: int, *more: str) -> bool:
    """One run in which a worker, the driver or both are killed after a random number of commits."""
    before = records(out) if Path(out, ".omnitts").exists() else 0
    process = with_ray(out, draw.randint(1, 3), *more, rows=name)
    hit = wait_for(out, before + draw.randint(0, max(rows - before - 20, 1)), process)
    time.sleep(draw.random() / 2)
    if whom in ("worker", "both"):
        for worker in workers_here()[: draw.randint(1, 2)]:
            os.kill(worker, signal.SIGKILL)
    if whom == "worker":
        ended(process)
        return hit
    process.kill()
    process.wait()
    return hit


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("to", "seed"),
    [("files", seed) for seed in range(20)] + [(to, seed) for to in ("webdataset", "parquet") for seed in range(3)],
)
def test_a_cluster_that_is_killed_anywhere_goes_on(home: Path, omnitts: Any, to: str, seed: int) -> None:
    """Each row is there once, and nothing is left to be spoken."""
    pytest.importorskip("ray")
    rows, draw, more = 300, random.Random(seed), ("--to", to, "--shard-size", "100KB")
    made_whole(omnitts, rows)
    manifest(rows, "shuffled.jsonl", shuffled=seed)
    whom = ("worker", "driver", "both")[seed % 3]
    disturbed("out", "shuffled.jsonl", draw, whom, rows, *more)
    ended(with_ray("out", draw.randint(1, 3), *more, rows="shuffled.jsonl"))
    assert sums("out") == sums("whole") and stored("out") == sorted(sums("whole").values())
    assert omnitts("batch", "shuffled.jsonl", "-O", "out", *TOY, *more, "--json").json["spoken_now"] == 0
    eventually(lambda: not workers_here())  # those of a driver that was killed end by themselves


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers(home: Path, omnitts: Any, workers: int) -> None:
    pytest.importorskip("ray")
    manifest(200)
    manifest(200, "shuffled.jsonl", shuffled=workers)
    assert omnitts("batch", "rows.jsonl", "-O", "whole", *TOY).code == 0
    ended(with_ray("out", workers))
    assert Path("out/manifest.jsonl").read_bytes() == Path("whole/manifest.jsonl").read_bytes()
    ended(with_ray("out2", workers, rows="shuffled.jsonl"))
    assert sums("out2") == sums("whole")


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of two nodes, which was started apart."""
    pytest.importorskip("ray")
    address = f"127.0.0.1:{free_port()}"
    command, folder = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=1"], f"/tmp/r{os.getpid()}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    running: list[subprocess.Popen[bytes]] = []
    try:
        for where in ([f"--port={address.split(':')[1]}", "--head", f"--temp-dir={folder}"], [f"--address={address}"]):
            log = Path(tmp_path, f"node-{len(running)}.log")
            node = [*command, *where, "--block", "--object-store-memory=100000000", "--disable-usage-stats"]
            with log.open("wb") as out:
                given = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out, "start_new_session": True}
                running.append(subprocess.Popen(node, env=environment, **given))
            eventually(lambda log=log: b"Ray runtime started" in log.read_bytes())
        yield address
    finally:
        for process in reversed(running):
            os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_that_was_started_apart(home: Path, omnitts: Any, nodes: str) -> None:
    """Two nodes; the run joins them by their address, a worker is killed, and the cluster is still there afterwards."""
    made_whole(omnitts, 200)
    process = with_ray("out", 2, ray=nodes)
    if wait_for("out", 20, process) and (found := workers_here()):
        os.kill(found[0], signal.SIGKILL)
    ended(process)
    assert sums("out") == sums("whole")
    ended(with_ray("out2", 2, "--to", "webdataset", ray=nodes))
    assert sums("out2") == sums("whole") and stored("out2") == sorted(sums("whole").values())


# ---- without Ray


def test_journals_of_workers_become_one(tmp_path: Path) -> None:
    """Of a row that two workers made differently, the record counts whose sound is there."""
    main = RowJournal(tmp_path)
    main.append([Entry((1, 1), 11, 0, DONE, b'{"n": 0}', sha=1)])
    for name, sha in (("w0-a", 5), ("w1-b", 6)):
        own = RowJournal(tmp_path, name)
        lines = [Entry((2, 2), 22, 1, DONE, json.dumps({"by": name}).encode(), sha=sha)]
        own.append([*lines, Entry((3, sha), 30 + sha, sha, DONE, json.dumps({"n": sha}).encode(), sha=sha)])
        own.close()
    with (tmp_path / "journal-w1-b.bin").open("ab") as file:
        file.write(b"half a record")
    asked: list[bytes] = []

    def is_there(record: Any, details: bytes) -> bool:
        asked.append(details.rstrip())
        return int(record["sha"]) == 5

    assert main.absorb(tmp_path, is_there) == 4
    main.append([Entry((4, 4), 44, 3, DONE, b'{"n": 4}', sha=4)])
    main.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["details-main.jsonl", "journal-main.bin"]
    assert sorted(asked) == [b'{"by": "w0-a"}', b'{"by": "w1-b"}']
    lookup = Lookup(tmp_path)
    found = lookup.of_names(np.array([11, 22, 35, 36, 44], np.uint64))
    details = [json.loads(lookup.details(int(record))) for record in found]
    assert details == [{"n": 0}, {"by": "w0-a"}, {"n": 5}, {"n": 6}, {"n": 4}]
    lookup.close()
    RowJournal(tmp_path).close()
    assert len(journal.read(tmp_path / "journal-main.bin")) == 5


def test_a_row_that_kills_three_workers_fails_and_others_go_on(omnitts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made_whole(omnitts, 40)

    def dies(actor: Actor, rows: np.ndarray) -> bool:
        if 17 not in rows:
            return False
        doing = actor.task.work / f"doing-{actor.workers[-1].name}"
        doing.write_bytes((np.asarray(rows) + 1).astype("<u4").tobytes())
        return True

    actors = two_workers(monkeypatch, dies)
    omnitts("batch", "rows.jsonl", "-O", "out", *TOY, "--ray", "local").ended(6, "3 workers died while they spoke it")
    assert sum(actor.deaths for actor in actors) == 3
    rows = [json.loads(line) for line in Path("out/manifest.jsonl").read_text().splitlines()]
    assert [(row["id"], row["code"]) for row in rows if row["status"] == "failed"] == [("r17", "poison")]
    expected = sums("whole")
    assert {row["id"]: row["sha256"] for row in rows if row["status"] == "ok"} == {
        id: sha for id, sha in expected.items() if id != "r17"
    }
    end(actors)
    again = omnitts("batch", "rows.jsonl", "-O", "out", *TOY, "--retry-failed")  # without workers
    assert again.code == 0 and len(sums("out")) == 40


@pytest.mark.parametrize(
    ("address", "code", "message"),
    [
        ("127.0.0.1:1", 5, "no Ray cluster at 127.0.0.1:1"),
        ("10.0.0.5", 2, "--ray 10.0.0.5 is not an address"),
        ("ray://10.0.0.5:10001", 2, "--ray ray://10.0.0.5:10001 is not an address"),
    ],
)
def test_an_address_without_a_cluster(omnitts: Any, address: str, code: int, message: str) -> None:
    pytest.importorskip("ray")
    Path("m.txt").write_text("One.")
    omnitts("batch", "m.txt", "-O", "out", *TOY, "--ray", address).ended(code, message, "--ray local")


def test_a_worker_that_cannot_start() -> None:
    """A machine without this package ends the run at once; a worker that was killed is started again."""
    begin = "The actor died because of an error raised in its creation task, ray::Worker.__init__()"
    with pytest.raises(DeviceError, match="lacks a package") as caught:
        cluster.check_start(f"{begin}\n...\nModuleNotFoundError: No module named 'omnitts_cli'\n")
    assert caught.value.cause == "ModuleNotFoundError: No module named 'omnitts_cli'"
    with pytest.raises(DeviceError, match="could not be started"):
        cluster.check_start(f"{begin}\nAttributeError: 'Task' object has no attribute 'job'")
    cluster.check_start("The actor died unexpectedly before finishing this task. Worker exit type: SYSTEM_ERROR")


def test_workers_need_ray(omnitts: Any) -> None:
    Path("m.txt").write_text("One.")
    done = omnitts("batch", "m.txt", "-O", "out", *TOY, "--workers", "2")
    assert done.code == 2 and "--workers has no effect without --ray" in done.err and "--ray ADDRESS" in done.err
