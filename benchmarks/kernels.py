"""What each kernel is worth: the whole engine without it, over the whole engine, in turn in one process.

    python benchmarks/kernels.py -m random:1.7b-customvoice -c 1,8,64,256 --turns 3
    python benchmarks/kernels.py -m random:1.7b-customvoice -c 64 --without attend.cu+attend_long.cu,many_rows.py

A name is that of a variant in `omnitts doctor --kernels`; names joined by "+" are left out together, and the next
variant of each operation stands in. Above 1, the kernel makes the engine faster: throughput with it over throughput
without it, or first sounds (median) without it over those with it. Every second engine is whole, and each one without
a kernel is compared with the whole ones beside it. The rows "whole" show the spread.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import rig
import speak

WITHOUT = (
    "talker.cu+rows_*.cu", "predictor.cu", "prefetched.cu", "attend.cu+attend_long.cu", "attend_long.cu",
    "codec_resident.cu+codec_stream.cu+codec_deep.cu+codec_last.cu", "codec_deep.cu", "codec_wide.py", "many_rows.py",
    "_gated+_parts", "_vector",
)  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-c", "--concurrency", type=rig.numbers, default=[1, 8, 64, 256], help="1,8,64,256")
    parser.add_argument("--frames", type=int, default=50, help="of each request")
    parser.add_argument("--rounds", type=int, default=4, help="times that every place in flight is used")
    parser.add_argument("--turns", type=int, default=1, help="times that everything is measured")
    parser.add_argument("--without", default=",".join(WITHOUT), help="names of variants, those joined by + together")
    parser.add_argument("--slot-seconds", type=float, default=30.0, help="longest speech of a slot")
    parser.set_defaults(tokens=None, slots=None, arrivals="together", model="random:1.7b-customvoice")
    return parser.parse_args()


@contextmanager
def left_out(names: Sequence[str]) -> Iterator[None]:
    """The table of kernels without these variants."""
    from omnitts_cli.kernels import choose

    whole = choose.OPERATIONS
    unknown = set(names) - {variant.name for operation in whole for variant in operation.variants}
    if unknown:
        raise SystemExit(f"no kernel is called {', '.join(sorted(unknown))}; see `omnitts doctor --kernels`")
    choose.OPERATIONS = tuple(
        replace(operation, variants=tuple(one for one in operation.variants if one.name not in names))
        for operation in whole
    )
    try:
        yield
    finally:
        choose.OPERATIONS = whole


def measured(options: argparse.Namespace, names: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each number of streams."""
    settings = rig.settings_of(options, slots=max(options.concurrency), seconds=options.slot_seconds)
    with left_out(names):
        engine, about = speak.opened(options, settings, *rig.load_model(options, settings))
        rows = [speak.measure(engine, options, level, "together") for level in options.concurrency]
    about |= {"bench": "kernels", "without": list(names)} | rig.machine(options, engine.device)
    del engine
    gc.collect()
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return [about | row for row in rows]


def gains(whole: Sequence[Sequence[dict[str, Any]]], without: Sequence[dict[str, Any]]) -> list[str]:
    """Throughput, and first sounds in brackets, one for each number of streams."""
    found = []
    for beside, row in zip(zip(*whole, strict=True), without, strict=True):
        sound = statistics.mean(one["audio_throughput"] for one in beside) / row["audio_throughput"]
        first = row["ttfp_ms"]["median"] / statistics.mean(one["ttfp_ms"]["median"] for one in beside)
        found.append(f"{sound:.3f} ({first:.2f})")
    return found


def main() -> None:
    options = arguments()
    groups = options.without.split(",")
    kept: list[dict[str, Any]] = []
    table: list[list[Any]] = []
    for turn in range(options.turns):
        before = measured(options, ())
        kept += before
        for group in groups:
            without = measured(options, group.split("+"))
            after = measured(options, ())
            kept += [*without, *after]
            table += [[turn + 1, group, *gains([before, after], without)], [turn + 1, "whole", *gains([before], after)]]
            print(*table[-2], flush=True)
            before = after
    rig.table(["turn", "without", *[f"{level} (first)" for level in options.concurrency]], table)
    rig.keep("kernels", kept, options)


if __name__ == "__main__":
    main()
