"""Damaged files for every reader of other people's, and damaged requests to a server, for as long as asked.

    python benchmarks/fuzz.py --minutes 60 --seed 0

It ends with 1 and the seeds if a case was not held: an internal error, more than 10 s of processor time, a minute in
all, too much memory, or a server that no longer answers. `--case NAME --seed N` runs one case again; the cases are in
tests/support/fuzz.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOUSE))
sys.path.insert(1, str(HOUSE / "tests" / "support"))

import fuzz  # noqa: E402
from served import Served, command  # noqa: E402
from wire import ask  # noqa: E402

DOORS_EACH = 40  # requests to the server for each round of the readers
MOST_SERVER_MIB = 700


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--minutes", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=0, help="of the first round")
    options.add_argument("--case", help="a reader, or door")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name, command(Path(name, "served")) as server:
        if given.case:
            one(given.case, given.seed, Path(name), server)
            return 0
        return rounds(given.minutes, given.seed, Path(name), server)


def one(case: str, seed: int, folder: Path, server: Served) -> None:
    """One case; AssertionError if it is not held."""
    if case == "door":
        fuzz.door_case(server.url, seed)
    else:
        fuzz.read_case(case, seed, folder)


def rounds(minutes: float, seed: int, folder: Path, server: Served) -> int:
    """All cases with one seed after the other."""
    end, cases, failures, statuses = time.monotonic() + minutes * 60, 0, list[str](), Counter[int]()
    first = seed
    while time.monotonic() < end:
        for name in fuzz.known():
            cases += 1
            try:
                fuzz.read_case(name, seed, folder)
            except AssertionError as error:
                failures.append(str(error))
        for number in range(DOORS_EACH):
            cases += 1
            try:
                statuses[fuzz.door_case(server.url, seed * DOORS_EACH + number)] += 1
            except (AssertionError, OSError) as error:
                failures.append(f"door {seed * DOORS_EACH + number}: {error}")
        failures += problems(server, seed)
        seed += 1
    print(f"{cases:,} cases, seeds {first} to {seed - 1}; {len(failures)} failures")
    print("statuses of the server: " + ", ".join(f"{status}: {count:,}" for status, count in sorted(statuses.items())))
    print(f"server: {server.memory() >> 20} MiB, {server.descriptors()} descriptors, {server.threads()} threads")
    print(f"peak memory of the readers {fuzz.peak_mib()} MiB")
    print("\n".join(failures[:50]))
    return bool(failures)


def problems(server: Served, seed: int) -> list[str]:
    """What is wrong with the server after a round."""
    found = []
    began = time.monotonic()
    if ask(server.url, "/health").status != 200 or time.monotonic() - began > fuzz.HANGS_S:
        found.append(f"after {seed}: /health")
    if server.memory() >> 20 > MOST_SERVER_MIB:
        found.append(f"after {seed}: the server has {server.memory() >> 20} MiB")
    if "Traceback" in server.log():
        found.append(f"after {seed}: a traceback in the log: {server.log()[-1500:]}")
    return found


if __name__ == "__main__":
    sys.exit(main())
