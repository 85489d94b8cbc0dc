"""The whole engine: requests of a fixed number of frames, closed loop (together or apart) or arriving at random.

    python benchmarks/speak.py -m random:1.7b-customvoice -c 1,4,8,16,64 --frames 100
    python benchmarks/speak.py -m random:1.7b-customvoice -c 1 --eager
    python benchmarks/speak.py -m random:1.7b-customvoice -c 1,8,64,1,8,64 --vs-exact
    python benchmarks/speak.py -m random:1.7b-customvoice -c 64 --tokens 60
    python benchmarks/speak.py -m random:1.7b-customvoice -c 16,64,128 --frames 50 --arrivals together,apart --rounds 6
    python benchmarks/speak.py -m random:1.7b-customvoice -c 16 --arrivals poisson --seconds 1 --seeds 20

RTF is a request's time from submission to its last sound over the sound's length: less is better. The
first sound is the first playable one. One round is thrown away before each level. "apart": the first requests have
random lengths and do not count. "late": streams whose player, started with the first packet, would run dry.

`prompt_rows` of a row are the talker's inputs before the first frame. Until 2026-11-23 random models had a vocabulary
of bytes, and this sentence had 60 tokens instead of 15: `--tokens 60` gives such a prompt again.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import rig

TEXT = "The kettle is on, and the bread is still warm from the oven."
PERCENTILES = (50.0, 90.0, 95.0, 99.0)
RETURNED = ("concurrency", "requests", "failed", "duration_s", "audio_s", "audio_throughput", "frames", "rtf")
RETURNED += ("ttfp_ms", "audible_ms", "e2el_ms", "gap_ms_max", "underruns", "late", "client_queue_ms", "most_in_flight")
RETURNED += ("host_syncs_per_frame", "peak_memory_bytes", "failures")


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-c", "--concurrency", type=rig.numbers, default=[1, 4, 10], help="1,4,10")
    parser.add_argument("--frames", type=int, default=100, help="of each request, whatever the end code says")
    parser.add_argument("--tokens", type=int, help="length of the text: the sentence, repeated and cut off")
    parser.add_argument("--rounds", type=int, default=3, help="times that every place in flight is used (closed loop)")
    parser.add_argument("--arrivals", default="together", help="together, apart, poisson: one after another")
    parser.add_argument("--seconds", type=float, default=1.0, help="within which the streams arrive (poisson)")
    parser.add_argument("--seeds", type=int, default=20, help="times that they arrive (poisson)")
    parser.add_argument("--slots", type=int, help="of the engine; by default the highest level")
    parser.add_argument("--slot-seconds", type=float, default=60.0, help="longest speech of a slot")
    parser.add_argument("--eager", action="store_true", help="also the same steps uncaptured, in the same run")
    parser.add_argument("--vs-exact", action="store_true", help="also with --exact, in turn, in the same run")
    options = parser.parse_args()
    options.arrivals = options.arrivals.split(",")
    if unknown := set(options.arrivals) - {"together", "apart", "poisson"}:
        parser.error(f"--arrivals does not know {', '.join(sorted(unknown))}")
    if options.vs_exact and (options.exact or options.eager):
        parser.error("--vs-exact cannot be combined with --exact or --eager")
    return options


def request(options: argparse.Namespace, model: Any) -> Any:
    """The sentence, or the beginning of its repetitions that has `--tokens` tokens."""
    from omnitts_cli.request import Request
    from omnitts_cli.voices import Designed, Named

    voice = Named(next(iter(model.speakers), "")) if "named" in model.kinds else Designed("a calm voice")
    language = "english" if "english" in model.languages else None
    text, wanted = TEXT, options.tokens or 0
    if wanted:
        text = ""
        while model.prompter.draft(Request(text or "T", voice, language)).spoken < wanted or not text:
            text += TEXT[len(text) % len(TEXT)]
    return Request(text, voice, language, max_frames=options.frames, ignore_end=True)


def works(options: argparse.Namespace, model: Any) -> Iterator[Any]:
    """The same sentence with a seed of its own, without end."""
    from omnitts_cli.bench.record import Work

    same = request(options, model)
    for seed in itertools.count(1):
        yield Work(replace(same, seed=seed))


def gathered(count: int, seconds: float, seed: int) -> list[float]:
    """Arrivals of a Poisson process that has `count` of them within `seconds`: that many uniform draws, in order."""
    return sorted(float(x) for x in np.random.default_rng(seed).uniform(0, seconds, count))


def together(target: Any, work: Iterator[Any], level: int, rounds: int) -> Any:
    from omnitts_cli.bench.load import Extent, closed_loop

    return closed_loop(target, work, level, Extent(level * rounds))


def apart(target: Any, work: Iterator[Any], level: int, rounds: int) -> Any:
    from omnitts_cli.bench.load import LEAST_ROUNDS, Extent, apart_loop

    return apart_loop(target, work, level, Extent(level * max(rounds, LEAST_ROUNDS)))


def at_random(target: Any, work: Iterator[Any], level: int, options: argparse.Namespace) -> Any:
    """All seeds as one run: what the requests met, over the time they were under way."""
    from omnitts_cli.bench.load import Extent, Run, open_loop

    whole = Run(0.0)
    for seed in range(options.seeds):
        whole.add(open_loop(target, work, gathered(level, options.seconds, seed), Extent(level)))
    return whole


def measure(engine: Any, options: argparse.Namespace, level: int, arrivals: str) -> dict[str, Any]:
    """One level: a round thrown away, then what is kept."""
    from omnitts_cli.bench import stats
    from omnitts_cli.bench.local import EngineTarget

    work = works(options, engine.model)
    with EngineTarget(engine) as target:
        together(target, work, level, 1)
        engine.device.synchronize()
        launched = engine.frames_launched
        began = time.perf_counter()
        with engine.device.count_syncs() as waits:
            if arrivals == "poisson":
                run = at_random(target, work, level, options)
            else:
                run = (together if arrivals == "together" else apart)(target, work, level, options.rounds)
        seconds, launched = time.perf_counter() - began, engine.frames_launched - launched
    syncs = waits()
    level_ = stats.level(
        run,
        concurrency=level,
        percentiles=PERCENTILES,
        host_syncs_per_frame=None if syncs is None else syncs / max(launched, 1),
        peak_memory_bytes=engine.device.peak_bytes(),
    )
    row = {key: value for key, value in asdict(level_).items() if key in RETURNED}
    more = {"arrive_within_s": options.seconds, "seeds": options.seeds} if arrivals == "poisson" else {}
    if arrivals != "apart":  # else frames of requests that do not count are among those of the engine
        seconds = run.duration_s
    frames = {"engine_frames": launched, "ms_per_frame": seconds * 1000 / max(launched, 1)}
    return row | {"arrivals": arrivals} | more | frames


def opened(
    options: argparse.Namespace, settings: Any, model: Any, device: Any, load_s: float
) -> tuple[Any, dict[str, Any]]:
    """An engine, and what its rows have in common."""
    from omnitts_cli.engine.engine import Engine
    from omnitts_cli.speech import load as build

    began = time.perf_counter()
    engine = Engine(model, device, build.plan_for(model, device, settings))
    start_s = time.perf_counter() - began
    about = {
        "bench": "speak",
        "model": options.model,
        "dtype": str(model.dtype).removeprefix("torch."),
        "frames_per_request": options.frames,
        "prompt_rows": len(model.prompter.draft(request(options, model)).text),
        "captured": engine.plan.capture and device.captures,
        "slots": engine.plan.slots,
        "slot_seconds": options.slot_seconds,
        "load_s": load_s,
        "start_s": start_s,
        "note": options.note,
        **({"exact": True} if settings.exact else {}),
    }
    return engine, about


def show(found: list[dict[str, Any]]) -> None:
    head = ["captured", "streams", "arrivals", "failed", "RTF", "audio-s/s", "first p50", "p95 ms", "ms/frame"]
    head += ["gap ms", "late", "syncs/frame", "GiB", "load s", "start s"]
    rig.table(
        head,
        [
            [
                "yes" if row["captured"] else "no",
                row["concurrency"],
                row["arrivals"],
                row["failed"],
                row["rtf"]["mean"],
                row["audio_throughput"],
                row["ttfp_ms"]["median"],
                row["ttfp_ms"]["p95"],
                row["ms_per_frame"],
                row["gap_ms_max"],
                row["late"],
                row["host_syncs_per_frame"],
                row["peak_memory_bytes"] / 2**30,
                row["load_s"],
                row["start_s"],
            ]
            for row in found
        ],
    )


def main() -> None:
    options = arguments()
    settings = rig.settings_of(options, slots=options.slots or max(options.concurrency), seconds=options.slot_seconds)
    model, device, load_s = rig.load_model(options, settings)
    engines = [opened(options, settings, model, device, load_s)]
    if options.eager and engines[0][1]["captured"]:
        engines.append(opened(options, replace(settings, capture=False), model, device, load_s))
    elif options.eager:
        print(f"{engines[0][0].device.name} records no steps: nothing to compare with --eager")
    if options.vs_exact:
        settings = replace(settings, exact=True)
        engines.append(opened(options, settings, *rig.load_model(options, settings)))
    gc.freeze()  # as commands do: a full collection stops the loop for 0.2 s
    found = [
        about | measure(engine, options, level, arrivals) | rig.machine(options, engine.device)
        for level in options.concurrency
        for arrivals in options.arrivals
        for engine, about in engines
    ]
    show(found)
    if len(engines) == 2:
        for first, second in zip(found[::2], found[1::2], strict=True):
            streams = f"{first['concurrency']} streams ({first['arrivals']})"
            if options.vs_exact:
                share = second["audio_throughput"] / first["audio_throughput"]
                print(f"--exact, {streams}: {share:.3f} of the throughput")
            else:
                ratio = second["ms_per_frame"] / first["ms_per_frame"]
                print(f"captured against uncaptured, {streams}: {ratio:.2f} x faster")
    for together_, apart_ in itertools.pairwise(found[:: len(engines)]):
        if (together_["arrivals"], apart_["arrivals"]) == ("together", "apart"):
            share = apart_["audio_throughput"] / together_["audio_throughput"]
            print(f"{apart_['concurrency']} streams apart: {share:.3f} of the throughput together")
    rig.keep("speak", found, options)


if __name__ == "__main__":
    main()
