"""The codec as the engine runs it: chunks of frames for several streams whose state stays on the device.

    python benchmarks/codec.py -m random:1.7b-customvoice --chunks 1,2,4,8 --rows 1,8,16,32
    python benchmarks/codec.py -m random:0.6b-customvoice -d cpu -t 2 --chunks 1,4 --rows 1 --beside-torch

A stream needs 12.5 frames a second; `streams` says how many of them this codec alone could serve.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import rig


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--chunks", type=rig.numbers, default=[1, 4, 8], help="frames decoded together")
    parser.add_argument("--rows", type=rig.numbers, default=[1, 4], help="streams decoded together")
    parser.add_argument("--turns", type=int, default=10, help="chunks per round")
    parser.add_argument("--beside-torch", action="store_true", help="on a CPU: in turn with the codec in torch")
    return parser.parse_args()


def steps_for(options: argparse.Namespace, settings: Any, model: Any, device: Any) -> Any:
    """The engine's own codec steps, with the sizes that were asked for."""
    from dataclasses import replace

    from omnitts_cli.engine.codec_jobs import SoundSteps
    from omnitts_cli.engine.slots import SlotTable, StepContext
    from omnitts_cli.speech import load as build

    plan = build.plan_for(model, device, settings)
    plan = replace(plan, chunks=tuple(sorted(options.chunks)), sound_rows=tuple(sorted(options.rows)))
    table = SlotTable.empty(plan, model.facts, model.device, model.dtype)
    stream = device.stream()
    return stream, SoundSteps(StepContext(model, device, plan, table, model.talker.cache(1, 8)), stream)


def in_torch(model: Any) -> Any:
    """The same model without the codec's decoder in C."""
    from dataclasses import replace

    return replace(model, ops=replace(model.ops, codec=replace(model.ops.codec, fuse_decoder=None)))


def main() -> None:
    options = arguments()
    settings = rig.settings_of(options, slots=max(options.rows), seconds=10.0)
    model, device, _ = rig.load_model(options, settings)
    kinds = {"as it is": steps_for(options, settings, model, device)}
    if options.beside_torch:
        kinds["torch"] = steps_for(options, settings, in_torch(model), device)
    rows = []
    for frames in options.chunks:
        for streams in options.rows:
            slots, starts = list(range(streams)), [0] * streams
            found: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(7):
                for kind, (stream, steps) in kinds.items():
                    call = lambda s=steps, f=frames, w=slots, a=starts: s.launch(f, w, a).result()  # noqa: E731
                    with stream:
                        found[kind].append(rig.timed(device, call, options.turns, 1)["ms"])
            for kind, times in found.items():
                time_ms = {"ms": statistics.median(times), "best_ms": min(times)}
                frame_us = time_ms["ms"] * 1000 / (frames * streams)
                serves = 1e6 / frame_us / model.facts.frame_rate
                about = {"frames": frames, "rows": streams, "codec": kind}
                rows.append(about | time_ms | {"us_per_frame": frame_us, "streams": serves})
    rig.table(
        ["frames", "rows", "codec", "ms per chunk", "best ms", "us per frame", "streams"],
        [[row[key] for key in ("frames", "rows", "codec", "ms", "best_ms", "us_per_frame", "streams")] for row in rows],
    )
    about = rig.about("codec", options, model) | {"captured": device.captures}
    rig.keep("codec", [about | {"rows": rows} | rig.machine(options, device)], options)


if __name__ == "__main__":
    main()
