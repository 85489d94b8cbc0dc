"""Corpora: a manifest, `omnitts batch` in a process of its own, and what it has written into a folder or a store.

What was written is read without the code under test where that can be.
"""

import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import warm
from fsspec.core import url_to_fs

ROOT = Path(__file__).parents[2]
TOY = ["-m", "random:toy", "--max-frames", "8", "--seed", "5", "-t", "1", "-d", "cpu", "--progress", "none"]
KINDS = ["files", "webdataset", "parquet"]
WORDS = "one two three four five six seven eight nine ten rain sun wind snow".split()


def manifest(rows: int, name: str = "rows.jsonl", shuffled: int | None = None) -> None:
    """Rows with texts of one to nine words and a number. `shuffled`: a seed for another order."""
    draw = random.Random(3)
    texts = [f"{n} " + " ".join(draw.choices(WORDS, k=draw.randint(1, 9))) + "." for n in range(rows)]
    lines = [json.dumps({"id": f"r{n}", "text": text}) for n, text in enumerate(texts)]
    if shuffled is not None:
        random.Random(shuffled).shuffle(lines)
    Path(name).write_text("".join(f"{line}\n" for line in lines))


def made_whole(omnitts: Any, rows: int) -> None:
    """A manifest of so many rows, and the folder `whole`: what one process makes of it that nothing disturbs."""
    manifest(rows)
    assert omnitts("batch", "rows.jsonl", "-O", "whole", *TOY).code == 0


def failing_batch(plan: dict[str, Any] | None, log: str = "made") -> list[str]:
    """The beginning of a command line of `batch` that dies or fails as batch_child.py says, and notes its rows."""
    return [sys.executable, str(Path(__file__).parent / "batch_child.py"), log, json.dumps(plan or {}), "batch"]


def child(out: str, plan: dict[str, Any] | None, *more: str) -> subprocess.CompletedProcess[str]:
    """A run over rows.jsonl, until it ends."""
    command = [*failing_batch(plan), "rows.jsonl", "-O", out, *TOY, *more]
    return warm.run(command, capture_output=True, text=True, timeout=240, env={**os.environ, "PYTHONPATH": str(ROOT)})


def forget(home: Path) -> None:
    """Another machine: it has none of our files."""
    shutil.rmtree(home / ".cache" / "omnitts" / "batch", ignore_errors=True)


def with_ray(
    out: str, workers: int, *more: str, rows: str = "rows.jsonl", ray: str = "local"
) -> subprocess.Popen[bytes]:
    """A run with workers, which has been started; it writes to the file `err`."""
    command = [sys.executable, "-m", "omnitts_cli", "batch", rows, "-O", out, "--ray", ray, "--workers", str(workers)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Path("err").open("ab") as err:
        return subprocess.Popen([*command, *TOY, *more], stdout=err, stderr=err, env=environment)


def ended(process: subprocess.Popen[bytes]) -> None:
    assert process.wait(timeout=280) == 0, Path("err").read_text()[-3000:]


def lines_of(out: str) -> dict[str, dict[str, Any]]:
    """The lines of the output manifest by their ids."""
    store, root = url_to_fs(out, use_listings_cache=False)
    return {row["id"]: row for row in map(json.loads, store.cat_file(f"{root}/manifest.jsonl").splitlines())}


def sums(out: str) -> dict[str, str]:
    """The SHA-256 of every row by its id. All must be done, and sound files must be as the manifest says."""
    soundfile = pytest.importorskip("soundfile")
    store, root = url_to_fs(out, use_listings_cache=False)
    rows = lines_of(out)
    assert {row["status"] for row in rows.values()} == {"ok"}
    for row in rows.values():
        if row["output"].endswith(".flac"):
            sound = store.cat_file(f"{root}/{row['output']}")
            assert len(sound) == row["bytes"] and hashlib.sha256(sound).hexdigest() == row["sha256"]
            assert len(soundfile.read(io.BytesIO(sound))[0]) == round(row["audio_s"] * row["sample_rate"])
    return {id: row["sha256"] for id, row in rows.items()}


def stored(out: str) -> list[str]:
    """The SHA-256 of every sound that is there, also in shards and in Parquet parts, which are whole."""
    store, root = url_to_fs(out, use_listings_cache=False)
    found: list[bytes] = []
    for name in store.find(root):
        if name.endswith((".flac", ".wav")):
            found.append(store.cat_file(name))
        elif name.endswith(".tar"):
            data = store.cat_file(name)
            assert data.endswith(b"\0" * 1024)
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                found += [tar.extractfile(one).read() for one in tar if one.name.endswith((".flac", ".wav"))]  # type: ignore[union-attr]
        elif Path(name).name.startswith("part-") and name.endswith(".parquet"):
            data = io.BytesIO(store.cat_file(name))
            found += pytest.importorskip("pyarrow.parquet").read_table(data)["audio"].to_pylist()
    return sorted(hashlib.sha256(sound).hexdigest() for sound in found)
