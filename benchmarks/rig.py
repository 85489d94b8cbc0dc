"""Shared by the scripts of this folder: options, opening a model, and result rows with machine, versions and commit."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
sys.path.insert(0, str(HERE.parent))  # from a source tree that is not installed, too

PACKAGES = ("omnitts-cli", "torch", "triton", "numpy", "transformers")


def options(about: str | None) -> argparse.ArgumentParser:
    """The options that every script has."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("-m", "--model", default="random:toy", help="random:1.7b-customvoice, a folder, ...")
    parser.add_argument("-d", "--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("-t", "--threads", type=int)
    parser.add_argument("--exact", action="store_true", help="the same bits in a batch of any size")
    parser.add_argument("--commit", default=commit(), help="where git is not at hand to ask")
    parser.add_argument("--note", default="", help="kept with the row")
    parser.add_argument("--no-keep", action="store_true", help="print only, keep nothing in results/")
    return parser


def numbers(text: str) -> list[int]:
    """1,4,10"""
    return [int(part) for part in text.split(",")]


def settings_of(arguments: argparse.Namespace, **more: Any) -> Any:
    from omnitts_cli.settings.engine import EngineSettings

    return EngineSettings(
        device=arguments.device,
        dtype=arguments.dtype,
        threads=arguments.threads,
        exact=arguments.exact,
        offline=True,
        **more,
    )


def load_model(arguments: argparse.Namespace, settings: Any) -> tuple[Any, Any, float]:
    """The model, its device, and the seconds that loading took."""
    from omnitts_cli.devices.choose import choose
    from omnitts_cli.speech import load as build

    device = choose(settings.device, settings.threads)
    if settings.exact:
        device.make_exact()
    began = time.perf_counter()
    model = build.load_model(arguments.model, device, settings=settings)
    device.synchronize()
    return model, device, time.perf_counter() - began


def timed(device: Any, run: Callable[[], object], turns: int, rounds: int = 7) -> dict[str, float]:
    """Milliseconds of one `run`: several rounds of `turns` runs back to back, and their median and best."""
    run()
    device.synchronize()
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(turns):
            run()
        device.synchronize()
        found.append((time.perf_counter() - began) * 1000 / turns)
    return {"ms": statistics.median(found), "best_ms": min(found)}


def about(bench: str, arguments: argparse.Namespace, model: Any) -> dict[str, Any]:
    """The fields that every row of a benchmark begins with."""
    return {"bench": bench, "model": arguments.model, "dtype": model.precision, "note": arguments.note}


def machine(arguments: argparse.Namespace, device: Any = None) -> dict[str, Any]:
    """Where and with what a row was measured."""
    return {
        "device": None if device is None else f"{device.name}, {device.card}",
        "system": platform.platform(),
        "versions": {"python": platform.python_version(), **versions()},
        "commit": arguments.commit,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit, with a + when the package was changed since."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--abbrev=12", "--exclude", "*"]
    try:
        name = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        changes = subprocess.run(
            ["git", "-C", str(HERE.parent), "status", "--porcelain", "--", "omnitts_cli"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return name + ("+" if changes else "")


def keep(bench: str, rows: Iterable[dict[str, Any]], arguments: argparse.Namespace) -> None:
    """Print each row as one line of JSON, the last lines of the output, and append them to results/BENCH.jsonl."""
    lines = [json.dumps(rounded(row), allow_nan=False) for row in rows]
    for line in lines:
        print(line)
    if not arguments.no_keep:
        RESULTS.mkdir(exist_ok=True)
        with (RESULTS / f"{bench}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)


def rounded(value: Any) -> Any:
    """Six digits are more than was measured."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns for people."""
    cells = [list(head)] + [[text(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.4f}" if abs(cell) < 1 else f"{cell:.1f}"
    return str(cell)
