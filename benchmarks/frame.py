"""One frame of the language side: talker step, sampling, predictor, next input, stop flags, for a batch.

    python benchmarks/frame.py -m random:1.7b-customvoice -b 1,8,16,32,64 --position 200
    python benchmarks/frame.py -m random:1.7b-customvoice -b 1 --eager

Frames are launched back to back. Where the host needs longer to launch a frame than the device to run it, the time is
the host's. RTF of the frame: its time over 80 ms, whatever the batch.
"""

from __future__ import annotations

import argparse
from typing import Any

import rig


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-b", "--batches", type=rig.numbers, default=[1, 4, 10])
    parser.add_argument("--position", type=int, default=100, help="rows of prompt and frames before this one")
    parser.add_argument("--capacity-s", type=float, default=60.0, help="longest speech of a slot")
    parser.add_argument("--turns", type=int, default=20, help="frames per round")
    parser.add_argument("--eager", action="store_true", help="also the same function uncaptured")
    return parser.parse_args()


def frames(options: argparse.Namespace, settings: Any, model: Any, device: Any, capture: bool) -> list[dict[str, Any]]:
    """Every batch size of one set of captured frames."""
    from dataclasses import replace

    from omnitts_cli.engine.engine import FrameSteps
    from omnitts_cli.engine.slots import SlotTable, StepContext
    from omnitts_cli.speech import load as build

    plan = replace(build.plan_for(model, device, settings), buckets=tuple(options.batches), capture=capture)
    table = SlotTable.empty(plan, model.facts, model.device, model.dtype)
    cache = model.talker.cache(plan.slots + 1, plan.positions)
    table.position.fill_(options.position)
    stream = device.stream(urgent=True)
    steps = FrameSteps(StepContext(model, device, plan, table, cache), stream)
    found = []
    for batch in options.batches:
        slots = list(range(batch))
        with stream:
            time_ms = rig.timed(device, lambda slots=slots: steps.launch(slots, options.position), options.turns)
        rtf = time_ms["ms"] / 1000 * model.facts.frame_rate
        audio = batch / time_ms["ms"] * 1000 / model.facts.frame_rate
        found.append({"batch": batch, "captured": capture, **time_ms, "rtf": rtf, "audio_s_per_s": audio})
    return found


def main() -> None:
    options = arguments()
    settings = rig.settings_of(options, slots=max(options.batches), seconds=options.capacity_s)
    model, device, _ = rig.load_model(options, settings)
    rows = frames(options, settings, model, device, device.captures)
    if options.eager and device.captures:
        rows += frames(options, settings, model, device, False)
    rig.table(
        ["batch", "captured", "ms per frame", "best ms", "RTF", "audio-s/s"],
        [
            [row["batch"], str(row["captured"]), row["ms"], row["best_ms"], row["rtf"], row["audio_s_per_s"]]
            for row in rows
        ],
    )
    about = rig.about("frame", options, model) | {"position": options.position}
    rig.keep("frame", [about | {"rows": rows} | rig.machine(options, device)], options)


if __name__ == "__main__":
    main()
