"""Two checkouts in turn on a CPU, so that other load affects both: the whole command, `bench`, a released shape.

    git worktree add ../old 99d0ddd
    python benchmarks/alternate.py ../old . --rounds 5

Medians of all rounds, and NEW over OLD. "beyond torch" is the processor time of the whole `say "Hello, world."` less
that of `python -c "import torch"` in the same round, with byte code cached. "torch path" switches the CPU's library in
C off; an old checkout may not have one. Run nothing else meanwhile. --voice gives both the same weights:

    python benchmarks/alternate.py ../old . --rows say,installed --voice ../old/omnitts_cli/embedded/tiny
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

OMNITTS = (sys.executable, "-m", "omnitts_cli")
ROWS = ("say", "torch", "installed", "released")
HELLO = ("say", "Hello, world.", "-o", os.devnull, "--format", "wav", "-q")


def run(command: Sequence[str], folder: Path, **variables: str) -> tuple[str, float]:
    """Standard output, and seconds of processor time."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as empty:  # no running server is found; an old checkout does not know --via off
        given = {**kept, "XDG_RUNTIME_DIR": empty, **variables}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def levels(folder: Path, *options: str, **variables: str) -> Iterator[tuple[str, float]]:
    """Audio seconds per second, RTF and first sound at each level of `bench`."""
    said, _ = run((*OMNITTS, "bench", "--json", "-d", "cpu", *options), folder, **variables)
    for line in said.splitlines():
        record = json.loads(line)
        for level in record.get("levels", [record]):
            if "audio_throughput" in level:
                yield f"{level['concurrency']} at once, audio-s/s", level["audio_throughput"]
                yield f"{level['concurrency']} at once, RTF", level["rtf"]["median"]
                yield f"{level['concurrency']} at once, first sound, ms", level["ttfp_ms"]["median"]


def measured(folder: Path, rows: Sequence[str], voice: Sequence[str], model: str) -> Iterator[tuple[str, float]]:
    """Everything once, in one checkout."""
    if "say" in rows:
        _, torch = run((sys.executable, "-c", "import torch"), folder)
        _, whole = run((*OMNITTS, *HELLO, *voice), folder)
        yield "import torch, s of processor", torch
        yield "say, whole command, s of processor", whole
        yield "say beyond torch, s of processor", whole - torch
        yield "--help, s of processor", run((*OMNITTS, "--help"), folder)[1]
    if "torch" in rows:
        for name, value in levels(folder, "-c", "1,4", "-n", "8", *voice, OMNITTS_NATIVE="0"):
            yield f"torch path, {name}", value
    if "installed" in rows:
        for name, value in levels(folder, "-c", "1,4,10", "-n", "10", *voice):
            yield f"as installed, {name}", value
    if "released" in rows:
        for name, value in levels(folder, "-m", model, "-c", "1", "-n", "1", "--frames", "6"):
            yield f"{model}, {name}", value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", default=",".join(ROWS), help="some of " + ", ".join(ROWS))
    parser.add_argument("--voice", type=Path, help="a folder that both read, instead of each its own embedded one")
    parser.add_argument("--model", default="random:0.6b", help="a released shape")
    options = parser.parse_args()
    voice = ("-m", str(options.voice.resolve())) if options.voice else ()
    found: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(options.rounds):
        for side, folder in enumerate((options.old, options.new)):
            for name, value in measured(folder.resolve(), options.rows.split(","), voice, options.model):
                found.setdefault(name, ([], []))[side].append(value)
    for name, (old, new) in found.items():
        before, after = statistics.median(old), statistics.median(new)
        print(f"{name:45} {before:8.3f} {after:8.3f}  {after / before:.3f}   least {min(old):.3f} {min(new):.3f}")


if __name__ == "__main__":
    main()
