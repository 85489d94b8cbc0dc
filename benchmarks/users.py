"""Users who come and go, in two checkouts in turn on one card: their throughput over that of users who begin together.

    mkdir before && git archive 6b8ca91f | tar -x -C before
    python benchmarks/users.py before . -m random:1.7b-customvoice

A checkout that speaks on a CPU needs its C library: `python -m omnitts_cli.kernels.cpu` in it. Both open the model at
once, each in a process of its own; then one speaks while the other one rests. Each round measures every number of users
in both, the order of the checkouts reversed in every other round. "together": all requests have `--frames` frames.
"apart": the same, but the first ones are shorter by a random part. "differ": all lengths are drawn, by up to `--spread`
more or fewer than `--frames`. The draws of a round are the same for both.

The table has medians of the rounds: audio-s/s, NEW over OLD, the shares of "together" and the p95 of first sounds in
ms, and all late streams: those whose player, started with the first packet, would run dry.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

LOADS = ("together", "apart", "differ")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("-m", "--model", default="random:toy")
    parser.add_argument("-d", "--device", default="auto")
    parser.add_argument("-c", "--users", default="16,64,128", help="16,64,128")
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--spread", type=float, default=0.4)
    parser.add_argument("--places", type=int, default=8, help="requests of each user in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=200.0, help="seconds of measuring after which no round begins")
    parser.add_argument("--speak", action="store_true", help=argparse.SUPPRESS)  # a process of this script's own
    return parser.parse_args()


# ---- in the process of a checkout


def differing(works: Iterator[Any], frames: int, spread: float, seed: int) -> Iterator[Any]:
    """The same works, each of a length of its own."""
    import numpy as np

    draw = np.random.default_rng(seed)
    for work in works:
        length = max(1, round(frames * (1 + spread * draw.uniform(-1, 1))))
        yield replace(work, request=replace(work.request, max_frames=length))


def speak(options: argparse.Namespace) -> None:
    """Opens the model and measures what standard input asks for: users, load and round on each line."""
    sys.path.insert(0, str(Path.cwd() / "benchmarks"))
    import gc

    import rig
    import speak as speaking

    from omnitts_cli.bench import load, stats
    from omnitts_cli.bench.local import EngineTarget

    answers, sys.stdout = sys.stdout, sys.stderr
    most = max(rig.numbers(options.users))
    sys.argv = [sys.argv[0], "-m", options.model, "-d", options.device, "-c", options.users]
    sys.argv += ["--frames", str(options.frames), "--slot-seconds", "30"]
    given = speaking.arguments()
    settings = rig.settings_of(given, slots=most, seconds=given.slot_seconds)
    engine, _ = speaking.opened(given, settings, *rig.load_model(given, settings))
    gc.freeze()

    def run(users: int, kind: str, seed: int) -> Any:
        works = speaking.works(given, engine.model)
        if kind == "differ":
            works = differing(works, options.frames, options.spread, seed)
        extent = load.Extent(users * options.places)
        with EngineTarget(engine) as target:
            if kind == "together":
                return load.closed_loop(target, works, users, extent)
            return load.apart_loop(target, works, users, extent, seed=seed)

    with EngineTarget(engine) as target:
        load.closed_loop(target, speaking.works(given, engine.model), most, load.Extent(most))
    print("open", file=answers, flush=True)
    for line in sys.stdin:
        users, kind, seed = line.split()
        found = stats.level(run(int(users), kind, int(seed)), concurrency=int(users), percentiles=(50.0, 95.0))
        row = {"audio": found.audio_throughput, "first": found.ttfp_ms["p95"], "late": found.late}
        print(json.dumps(row | {"failed": found.failed}), file=answers, flush=True)


# ---- in the process that compares


class Checkout:
    """A process that speaks with the code of one checkout."""

    def __init__(self, folder: Path, given: list[str]) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), *given, "--speak"]
        paths = [str(folder.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
        place = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        self._child = subprocess.Popen(
            command, cwd=folder, env=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self) -> str:
        assert self._child.stdout is not None
        if not (line := self._child.stdout.readline()):
            sys.exit("a checkout could not speak; its message is above")
        return line

    def measure(self, users: int, kind: str, seed: int) -> dict[str, Any]:
        assert self._child.stdin is not None
        print(users, kind, seed, file=self._child.stdin, flush=True)
        found: dict[str, Any] = json.loads(self.answer())
        return found

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()


def main() -> None:
    options, began = arguments(), time.perf_counter()
    if options.speak:
        speak(options)
        return
    sides = [Checkout(folder, sys.argv[1:]) for folder in (options.old, options.new)]
    for side in sides:
        side.answer()
    levels = [int(users) for users in options.users.split(",")]
    found: dict[tuple[int, str, int], list[dict[str, Any]]] = {}
    print(f"both are open after {time.perf_counter() - began:.0f} s", flush=True)
    began = time.perf_counter()
    for turn in range(options.rounds):
        if found and time.perf_counter() - began > options.limit:
            break
        for users in levels:
            for kind in LOADS:
                for which in (0, 1) if turn % 2 == 0 else (1, 0):
                    row = sides[which].measure(users, kind, turn)
                    found.setdefault((users, kind, which), []).append(row)
                    print(json.dumps({"round": turn, "users": users, "load": kind, "new": which} | row), flush=True)
    for side in sides:
        side.close()
    show(found, levels)


def show(found: dict[tuple[int, str, int], list[dict[str, Any]]], levels: list[int]) -> None:
    def median(users: int, kind: str, which: int, field: str = "audio") -> float:
        return statistics.median(row[field] for row in found[users, kind, which])

    head = ("users", "load", "old", "new", "new/old", "share, old", "share, new", "p95, old", "new", "late, old", "new")
    print("  ".join(f"{cell:>10}" for cell in head))
    for users in levels:
        for kind in LOADS:
            old, new = (median(users, kind, which) for which in (0, 1))
            shares = [
                statistics.median(
                    one["audio"] / whole["audio"]
                    for one, whole in zip(found[users, kind, which], found[users, "together", which], strict=True)
                )
                for which in (0, 1)
            ]
            first = [median(users, kind, which, "first") for which in (0, 1)]
            late = [sum(row["late"] for row in found[users, kind, which]) for which in (0, 1)]
            cells = (users, kind, f"{old:.1f}", f"{new:.1f}", f"{new / old:.3f}", *(f"{one:.3f}" for one in shares))
            print("  ".join(f"{cell:>10}" for cell in (*cells, *(f"{one:.1f}" for one in first), *late)))


if __name__ == "__main__":
    main()
