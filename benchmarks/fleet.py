"""Several workers of `omnitts batch` against one process: seconds of speech per second, and whether the bytes agree.

python benchmarks/fleet.py --rows 27500 --workers 2 --folder FOLDER [--exact] [--save FILE]

One process speaks ROWS rows. Then WORKERS workers (`--ray local`) speak ROWS rows each; the first ROWS of all are the
same. Both times begin with the first loaded model and end with the last commit, so they contain the tail.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from batch import rows_of


def spoken(manifest: Path, out: Path, options: list[str]) -> dict[str, Any]:
    """One run of the command, in a process of its own."""
    command = [sys.executable, "-m", "omnitts_cli", "batch", str(manifest), "-O", str(out), "--json", *options]
    done = subprocess.run([*command, "--progress", "none"], stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[0])
    assert found["left"] == found["failed"] == 0 and found["spoken_now"] == found["rows"], found
    kept = ("rows", "audio_now_s", "committed_s", "wall_s")
    speed = found["audio_now_s"] / found["committed_s"]
    return {name: found[name] for name in kept} | {"audio_s_per_s": speed}


def sums(out: Path) -> dict[str, str]:
    """The SHA-256 of every row."""
    rows = map(json.loads, (out / "manifest.jsonl").read_text().splitlines())
    return {row["id"]: row["sha256"] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", "--model", default="random:1.7b-customvoice")
    parser.add_argument("-d", "--device", default="cuda")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--rows", type=int, default=27_500, help="of one process")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder for rows and speech")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    options = ["-m", asked.model, "-d", asked.device, "-b", str(asked.slots), *(["--exact"] if asked.exact else [])]
    found: dict[str, Any] = {name: getattr(asked, name) for name in ("model", "device", "slots", "workers", "exact")}
    for name, more in (("one", []), ("all", ["--ray", "local", "--workers", str(asked.workers)])):
        manifest = asked.folder / f"{name}.jsonl"
        rows = rows_of(asked.rows * (asked.workers if more else 1), False)
        manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
        found[name] = spoken(manifest, asked.folder / name, [*options, *more])
        print(name, json.dumps(found[name]), flush=True)
    found["ratio"] = found["all"]["audio_s_per_s"] / found["one"]["audio_s_per_s"]
    one, among_all = sums(asked.folder / "one"), sums(asked.folder / "all")
    found["equal"] = [sum(among_all[row] == sha for row, sha in one.items()), len(one)]
    print(f"ratio {found['ratio']:.3f}; {found['equal'][0]} of {len(one)} rows have the same SHA-256", flush=True)
    if asked.save:
        asked.save.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
