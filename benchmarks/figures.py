"""Draws the newest figures at the top of LOG.md from results/*.jsonl: python benchmarks/figures.py [--write]

Of each point it takes the newest commit whose rows were kept without a note, and the range of their values.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LOG = HERE / "LOG.md"
BEGIN, END = "<!-- figures: python benchmarks/figures.py --write -->\n", "<!-- end of figures -->\n"
COMMIT = re.compile(r"[0-9a-f]{7,40}")
FRAMES = 100  # of a request of speak.py

Row = dict[str, Any]


def rows(bench: str) -> Iterator[Row]:
    """The rows of a file of results that were measured on a commit as it was, in the order of time."""
    for line in (HERE / "results" / f"{bench}.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if COMMIT.fullmatch(row.get("commit") or ""):
            yield row


def newest(found: Iterator[tuple[tuple[Any, ...], Row]]) -> dict[tuple[Any, ...], list[Row]]:
    """By point, the rows of the last commit that measured it."""
    points: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for point, row in found:
        if points[point] and points[point][-1]["commit"] != row["commit"]:
            points[point].clear()
        points[point].append(row)
    return points


def span(values: list[float], digits: int) -> str:
    """One value, or the lowest and the highest."""
    low, high = f"{min(values):,.{digits}f}", f"{max(values):,.{digits}f}"
    return low if low == high else f"{low} to {high}"


def card_of(row: Row) -> str:
    return re.sub(r"^(?:cuda(?::\d+)?, )?|, \d+ threads$", "", row["device"])


def line(what: str, figure: str, found: list[Row]) -> str:
    last = found[-1]
    return f"| {what} | {figure} | {card_of(last)} | {last['commit'][:8]} | {last.get('created', '')[:10]} |"


def of_speak() -> Iterator[str]:
    """Speed of the engine in one process."""
    usable = (row for row in rows("speak") if not row["note"] and row["frames_per_request"] == FRAMES)
    points = newest(
        ((row["model"], row["device"], bool(row.get("exact")), row["concurrency"]), row)
        for row in usable
        if row["arrivals"] == "together"
    )
    for (model, _, exact, streams), found in sorted(points.items()):
        what = f"{model.removeprefix('random:')}{', `--exact`' * exact}, {streams} stream{'s' * (streams > 1)}"
        speed = span([row["audio_throughput"] for row in found], 0)
        first = span([row["ttfp_ms"]["median"] for row in found], 1)
        yield line(what, f"{speed} audio-s/s; first sound {first} ms", found)


def of_serve() -> Iterator[str]:
    """Speed over HTTP."""
    for (rate,), found in sorted(
        newest(((r["rate"],), r) for r in rows("serve") if r["what"] == "first packet").items()
    ):
        first = span([row["first_ms_p95"] for row in found], 1)
        yield line(f"HTTP, {rate:g} request{'s' * (rate > 1)} a second", f"first packet p95 {first} ms", found)
    speeds = (row for row in rows("serve") if row["what"] == "throughput")
    for (streams,), found in sorted(newest(((row["streams"],), row) for row in speeds).items()):
        speed = span([row["http_audio_s_per_s"] for row in found], 0)
        yield line(f"HTTP, {streams} stream{'s' * (streams > 1)}", f"{speed} audio-s/s", found)


def of_peers() -> Iterator[str]:
    """How many times slower others are, with the same weights."""
    whole = (row for row in rows("peers") if row["layers"] is None and row["device"].startswith("cuda"))
    for (shapes, _), found in newest(((row["shapes"], card_of(row)), row) for row in whole).items():
        for peer in found[-1]["rows"]:
            if peer["engine"] != "omnitts" and "slower_x" in peer:
                slower = f"{peer['slower_x']:.1f} times slower"
                yield line(f"{shapes}, {peer['concurrency']} at once, beside {peer['engine']}", slower, found[-1:])


def table() -> str:
    head = ["| what | figure | card | commit | date |", "|---|---|---|---|---|"]
    return "\n".join([*head, *of_speak(), *of_serve(), *of_peers()]) + "\n"


def drawn(log: str) -> str:
    """The log with the table of today."""
    before, rest = log.split(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", action="store_true", help="into LOG.md")
    if arguments.parse_args().write:
        LOG.write_text(drawn(LOG.read_text("utf-8")), "utf-8")
    else:
        print(table(), end="")
