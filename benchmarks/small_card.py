"""What a card of 3 to 8 GiB would do, on a large NVIDIA card: its memory as a limit, its kernels compiled for sm_86.

    python benchmarks/small_card.py                      # everything: less than four minutes on an H100
    python benchmarks/small_card.py --only speed,quality
    python benchmarks/small_card.py --only products      # each product of one row in bf16, and in q8 with several tiles

Each part is a process of its own, so that a limit of memory is its own too. All run side by side, mostly to compile
kernels, except for `speed`, which comes last and alone. 600 MiB of each card count as taken by a desktop. Weights
are random, except for those of `tiny`. `--own` leaves the large card its own kernels and shared memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rig

ARCH, SHARED_BYTES = 86, 99 << 10
DESKTOP = 600 << 20
TEXT = "The kettle is on, and the bread is still warm from the oven."
FRAMES, ROUNDS, SLOT_SECONDS = 100, 5, 60.0
CARDS = (("1.7b", 4, "auto"), ("0.6b", 3, "auto"), ("1.7b", 8, "q8"), ("1.7b", 8, "bf16"))
"""Models, GiB of the card, and precisions."""
SENTENCES, LONG_TEXTS = 24, 60
PARTS = ("memory", "speed", "quality", "runaways")
ALONE = ("speed", "products")
SHAPES = {
    "1024": (("linear", 4096, 1024), ("add", 1024, 2048), ("gated", 3072, 1024), ("add", 1024, 3072)),
    "2048": (("linear", 4096, 2048), ("add", 2048, 2048), ("gated", 6144, 2048), ("add", 2048, 6144)),
}
"""Products of a layer, by the width of the stack: kind, outputs, inputs."""
NUMBERS, A_THREAD = (2048, 4096, 8192), (16, 32)
"""Weights of a program and of a thread that are tried."""
COLD_BYTES = 200 << 20  # more than the caches hold


def be_small() -> None:
    """From now on Triton compiles for ARCH, the driver translates its PTX, and PyTorch calls the card an ARCH."""
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia import compiler, driver

    from omnitts_cli.kernels.triton import shared_memory

    torch.cuda.get_device_capability = lambda *about, **more: divmod(ARCH, 10)  # type: ignore[assignment]
    driver.CudaDriver.get_current_target = lambda self: GPUTarget("cuda", ARCH, 32)
    compiler.CUDABackend.make_cubin = lambda self, source, *about: source.encode()
    shared_memory.shared_bytes = lambda: SHARED_BYTES  # type: ignore[assignment]


def request_for(engine: Any, seed: int, **more: Any) -> Any:
    from omnitts_cli.request import Request
    from omnitts_cli.voices import Named

    voice = Named(sorted(engine.model.speakers)[0])
    return Request(more.pop("text", TEXT), voice, "english", seed=seed, **more)


def rtf_of(engine: Any, seed: int) -> float:
    """Of one request alone."""
    began = time.perf_counter()
    clip = engine.clip(request_for(engine, seed, max_frames=FRAMES, ignore_end=True))
    return (time.perf_counter() - began) / (len(clip.pcm) / engine.model.facts.sample_rate)


def memory(name: str, gib: int, dtype: str) -> dict[str, Any]:
    """Opens a model in a card's memory and speaks: with slots of a minute, as many as fit."""
    import torch

    from omnitts_cli.errors import OmniError
    from omnitts_cli.speech import load

    most, told = (gib << 30) - DESKTOP, list[str]()
    row: dict[str, Any] = {"bench": "small_card", "part": "memory", "model": name, "card_gib": gib, "dtype": dtype}
    began = time.perf_counter()
    try:
        engine = load.open_engine(
            f"random:{name}-customvoice",
            device="cuda",
            dtype=dtype,
            max_memory=most,
            seconds=SLOT_SECONDS,
            tell=lambda notice: told.append(notice.message),
        )
        row |= {"speaks": True, "dtype": engine.model.precision, "slots_of_a_minute": engine.plan.slots}
        row["rtf"] = [rtf_of(engine, seed) for seed in range(3)][-1]
        together = [request_for(engine, seed, max_frames=FRAMES, ignore_end=True) for seed in range(engine.plan.slots)]
        failed = [news for news in engine.speak(together) if not hasattr(news, "pcm")]
        row |= {"all_slots_speak": not failed}
    except OmniError as error:
        row |= {"speaks": False, "why": error.message, "cause": error.cause, "hint": error.hint}
    row |= {"start_s": time.perf_counter() - began, "told": told}
    row |= {"most_gib": most / 2**30, "peak_gib": torch.cuda.max_memory_reserved() / 2**30}
    return row


def speed(name: str) -> dict[str, Any]:
    """Both precisions in one process and in turn, one stream."""
    from omnitts_cli.speech import load

    engines = {
        dtype: load.open_engine(f"random:{name}-customvoice", device="cuda", dtype=dtype, slots=1, seconds=30.0)
        for dtype in ("bf16", "q8")
    }
    found: dict[str, list[float]] = {dtype: [] for dtype in engines}
    for seed in range(ROUNDS + 1):
        for dtype, engine in engines.items():
            found[dtype].append(rtf_of(engine, seed))
    best = {dtype: statistics.median(times[1:]) for dtype, times in found.items()}
    about = {"bench": "small_card", "part": "speed", "model": name, "frames": FRAMES}
    return about | {f"rtf_{dtype}": time for dtype, time in best.items()} | {"q8_gain": best["bf16"] / best["q8"]}


def timed(kind: str, module: Any, weights: list[Any], inputs: int, outputs: int) -> float:
    """Microseconds of one product."""
    import torch

    from omnitts_cli.kernels.ops import Normed

    x, norm = (torch.ones(1, inputs, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    added = torch.ones(1, outputs, dtype=torch.bfloat16, device="cuda")

    def step() -> None:
        for weight in weights:
            if kind == "add":
                module.row_linear_add(x, weight, added, added[0], 1e-6)
            else:
                run = module.row_norm_linear if kind == "linear" else module.row_norm_swiglu
                run(Normed(x, norm[0], 1e-6), weight)

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(7):
        began = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e6 / len(weights))
    return statistics.median(times)


def products(width: str) -> dict[str, Any]:
    """Microseconds of each product of one row, many times in a graph, with weights that no cache holds."""
    import torch

    from omnitts_cli.kernels import plain_eight
    from omnitts_cli.kernels.tiles import Tile
    from omnitts_cli.kernels.triton import eight
    from omnitts_cli.kernels.triton import products as floats

    row: dict[str, Any] = {"bench": "small_card", "part": "products", "width": width}

    usual = eight.eight_row_tile
    for kind, outputs, inputs in SHAPES[width]:
        rows = outputs * (2 if kind == "gated" else 1)
        whole = torch.randn(rows, inputs, dtype=torch.bfloat16, device="cuda")
        copies = max(8, COLD_BYTES // (2 * rows * inputs))
        found = {"bf16": timed(kind, floats, [whole.clone() for _ in range(copies)], inputs, outputs)}
        packed = plain_eight.pack(whole)
        matrices = [packed.clone() for _ in range(2 * copies)]
        eight.eight_row_tile = usual
        found["q8"] = timed(kind, eight, matrices, inputs, outputs)
        turn = 1 << (inputs - 1).bit_length()
        for numbers in NUMBERS:
            for each in A_THREAD:
                tile = Tile(max(1, numbers // turn), turn, max(1, max(numbers, turn) // each // 32))
                if tile.warps <= 16:
                    eight.eight_row_tile = lambda *about, tile=tile: tile
                    found[f"q8 {tile.outputs} x {tile.warps}"] = timed(kind, eight, matrices, inputs, outputs)
        row[f"{kind} {outputs} {inputs}"] = found
    return row


def quality() -> dict[str, Any]:
    """8 bits against float32, both on the card."""
    from dataclasses import asdict

    from omnitts_cli.bench.quality import measured

    found = measured("tiny", SENTENCES, 0, {"device": "cuda"})
    return {"bench": "small_card", "part": "quality", **asdict(found)}


def long_texts(most: int) -> list[list[str]]:
    """Each of about 60 s, in pieces of what the model says in one request."""
    from omnitts_cli.bench.evaluate import sentences

    lines, at, texts = sentences(), 0, []
    for _ in range(LONG_TEXTS):
        pieces, letters = [""], 0
        while letters < 900:
            line = lines[at % len(lines)]
            at, letters = at + 1, letters + len(line)
            if len(pieces[-1]) + len(line) + 1 > most:
                pieces.append("")
            pieces[-1] = f"{pieces[-1]} {line}".strip()
        texts.append(pieces)
    return texts


def runaways() -> dict[str, Any]:
    """Requests that do not end by themselves, of the same texts and seeds."""
    from omnitts_cli.speech import load

    row: dict[str, Any] = {"bench": "small_card", "part": "runaways", "texts": LONG_TEXTS}
    for dtype in ("fp32", "bf16", "q8"):
        engine = load.open_engine("tiny", device="cuda", dtype=dtype, slots=32, seconds=60.0)
        pieces = [one for text in long_texts(engine.model.longest_piece or 300) for one in text]
        asked = [request_for(engine, seed, text=text, id=f"p{seed}") for seed, text in enumerate(pieces)]
        stops: dict[str, int] = {}
        frames = 0
        for news in engine.speak(asked):
            frames += len(getattr(news, "codes", ()))
            if getattr(news, "last", True):
                reason = getattr(news, "stopped", "failed")
                stops[reason] = stops.get(reason, 0) + 1
        row[dtype] = {"pieces": len(asked), "audio_s": frames / engine.model.facts.frame_rate, "stopped": stops}
    ended = {dtype: row[dtype]["stopped"].get("end", 0) for dtype in ("fp32", "q8")}
    return row | {"extra_runaways": ended["fp32"] - ended["q8"]}


def run(part: str, given: list[str]) -> dict[str, Any]:
    """One part, in this process."""
    if part == "memory":
        return memory(given[0], int(given[1]), given[2])
    if part == "speed":
        return speed(given[0])
    if part == "products":
        return products(given[0])
    return quality() if part == "quality" else runaways()


def calls(wanted: list[str]) -> list[list[str]]:
    """The parts with what they are asked."""
    found = [["memory", name, str(gib), dtype] for name, gib, dtype in CARDS]
    found += [["speed", "0.6b"], ["speed", "1.7b"], ["quality"], ["runaways"]]
    found += [["products", width] for width in SHAPES]
    return [call for call in found if call[0] in wanted]


def main() -> None:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between them")
    parser.add_argument("--own", action="store_true", help="with the large card's own kernels")
    parser.add_argument("--call", help="a part with its arguments, in this process")
    options = parser.parse_args()
    if options.call:
        if not options.own:
            be_small()
        part, *given = options.call.split()
        print(json.dumps(rig.rounded(run(part, given))))
        return
    # a cubin of another architecture must not be found in the usual cache
    cache = tempfile.gettempdir() + f"/omnitts-triton-sm{ARCH}"
    env = {**os.environ, "OMNITTS_NATIVE": "0"} | ({} if options.own else {"TRITON_CACHE_DIR": cache})

    def row_of(call: list[str]) -> dict[str, Any]:
        began = time.perf_counter()
        line = [sys.executable, __file__, "--call", " ".join(call), *["--own"] * options.own]
        done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
        found = done.stdout.strip().splitlines()[-1:] if done.returncode == 0 else []
        row = json.loads(found[0]) if found else {"part": call, "failed": done.stderr[-1500:]}
        row |= {"took_s": time.perf_counter() - began, "own": options.own}
        print(json.dumps(rig.rounded(row)), flush=True)
        return row

    asked = calls(options.only.split(","))
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(row_of, [call for call in asked if call[0] not in ALONE]))
    rows += map(row_of, [call for call in asked if call[0] in ALONE])
    rig.keep("small_card", [{**row, **rig.machine(options)} for row in rows], options)


if __name__ == "__main__":
    main()
