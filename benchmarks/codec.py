"""The codec as the engine runs it: chunks of frames for several streams whose state stays on the device.

    python benchmarks/codec.py -m random:1.7b-customvoice --chunks 1,2,4,8 --rows 1,8,16,32

A stream needs 12.5 frames a second; `streams` says how many of them this codec alone could serve.
"""

from __future__ import annotations

import argparse
from typing import Any

import rig


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--chunks", type=rig.numbers, default=[1, 4, 8], help="frames decoded together")
    parser.add_argument("--rows", type=rig.numbers, default=[1, 4], help="streams decoded together")
    parser.add_argument("--turns", type=int, default=10, help="chunks per round")
    return parser.parse_args()


def steps_for(options: argparse.Namespace, settings: Any, model: Any, device: Any) -> Any:
    """The engine's own codec steps, with the sizes that were asked for."""
    from dataclasses import replace

    from omnitts_cli.engine.codec_jobs import SoundSteps
    from omnitts_cli.engine.frame import StepContext
    from omnitts_cli.engine.slots import SlotTable
    from omnitts_cli.speech import load as build

    plan = build.plan_for(model, device, settings)
    plan = replace(plan, chunks=tuple(sorted(options.chunks)), sound_rows=tuple(sorted(options.rows)))
    table = SlotTable.empty(plan, model.facts, model.device, model.dtype)
    return SoundSteps(StepContext(model, device, plan, table, model.talker.cache(1, 8)), device.stream())


def main() -> None:
    options = arguments()
    settings = rig.settings_of(options, slots=max(options.rows), seconds=10.0)
    model, device, _ = rig.load_model(options, settings)
    steps = steps_for(options, settings, model, device)
    rows = []
    for frames in options.chunks:
        for streams in options.rows:
            slots, starts = list(range(streams)), [0] * streams
            time_ms = rig.timed(device, lambda f=frames, s=slots, a=starts: steps.launch(f, s, a).wait(), options.turns)
            frame_us = time_ms["ms"] * 1000 / (frames * streams)
            serves = 1e6 / frame_us / model.facts.frame_rate
            rows.append({"frames": frames, "rows": streams, **time_ms, "us_per_frame": frame_us, "streams": serves})
    rig.table(
        ["frames", "rows", "ms per chunk", "best ms", "us per frame", "streams"],
        [[row[key] for key in ("frames", "rows", "ms", "best_ms", "us_per_frame", "streams")] for row in rows],
    )
    about = rig.about("codec", options, model) | {"captured": device.captures}
    rig.keep("codec", [about | {"rows": rows} | rig.machine(options, device)], options)


if __name__ == "__main__":
    main()
