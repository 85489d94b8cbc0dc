"""One frame of the language side: talker step, sampling, predictor, next input, stop flags, for a batch.

    python benchmarks/frame.py -m random:1.7b-customvoice -b 1,8,16,32,64 --position 200
    python benchmarks/frame.py -m random:1.7b-customvoice -b 1 --eager
    python benchmarks/frame.py -m random:0.6b-customvoice -b 1,2,4,8 -d cpu --dtype q8 -t 2

Frames are launched back to back. Where the host needs longer to launch a frame than the device to run it, the time is
the host's. RTF of the frame: its time over 80 ms, whatever the batch.

With weights in 8 bits on a CPU, GB/s are the matrices that a frame reads over its best time, and their share is of the
best that as many threads read from memory in the same minute, in turn with the frames.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import rig

STREAM_BYTES, LOOKS = 256 << 20, 7  # read by each thread: more than caches hold; times that both are measured


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-b", "--batches", type=rig.numbers, default=[1, 4, 10])
    parser.add_argument("--position", type=int, default=100, help="rows of prompt and frames before this one")
    parser.add_argument("--capacity-s", type=float, default=60.0, help="longest speech of a slot")
    parser.add_argument("--turns", type=int, default=20, help="frames per round")
    parser.add_argument("--eager", action="store_true", help="also the same function uncaptured")
    return parser.parse_args()


def run_all(table: Any) -> None:
    """Lets every slot make frames without end: the library of a CPU calculates nothing for others."""
    for flags in (table.live, table.closed, table.controls.ignore_end):
        flags.fill_(True)
    for factors in (table.controls.temperature, table.controls.predictor_temperature):
        factors.fill_(0.9)
    for factors in (table.controls.top_p, table.controls.predictor_top_p):
        factors.fill_(1.0)
    for counts in (table.controls.top_k, table.controls.predictor_top_k):
        counts.fill_(50)
    table.limit.fill_(1 << 40)
    table.made.fill_(0)


class Reading:
    """What a frame in 8 bits reads, beside what this machine reads."""

    FIELDS = ("frame_gb", "gb_per_s", "machine_gb_per_s", "share")

    def __init__(self, options: argparse.Namespace, model: Any, device: Any) -> None:
        from omnitts_cli.families.known import family_of, made_up
        from omnitts_cli.speech import outlook

        if options.model.startswith("random:"):
            family, config = made_up(options.model.removeprefix("random:"), None)
        else:
            family = family_of(Path(options.model))
            config = family.read_config(Path(options.model))
        self._eight, self._threads, self._measured = device.ops().eight, device.thread_count(), outlook.gigabytes_per_s
        self._bytes = outlook.frame_bytes(family.stored(config).language[1], config.decoder.groups, self._eight)
        self._best = 0.0

    def look(self) -> None:
        """Measures the machine."""
        self._best = max(self._best, self._measured(self._eight, self._threads, STREAM_BYTES))

    def beside(self, frame_ms: float) -> dict[str, float]:
        """For a row."""
        reached = self._bytes / frame_ms / 1e6
        return dict(zip(self.FIELDS, (self._bytes / 1e9, reached, self._best, reached / self._best), strict=True))


def frames(options: argparse.Namespace, settings: Any, model: Any, device: Any, capture: bool) -> list[dict[str, Any]]:
    """Every batch size of one set of captured frames."""
    from dataclasses import replace

    from omnitts_cli.engine.engine import frame_steps
    from omnitts_cli.engine.slots import SlotTable, StepContext
    from omnitts_cli.speech import load as build

    plan = replace(build.plan_for(model, device, settings), buckets=tuple(options.batches), capture=capture)
    table = SlotTable.empty(plan, model.facts, model.device, model.dtype)
    cache = model.talker.cache(plan.slots + 1, plan.positions)
    table.position.fill_(options.position)
    stream = device.stream(urgent=True)
    context = StepContext(model, device, plan, table, cache)
    steps = frame_steps(context, stream)
    reading = None
    if device.name == "cpu":
        run_all(table)
        reading = Reading(options, model, device) if model.precision == "q8" else None
    found = []
    for batch in options.batches:
        slots = list(range(batch))
        rounds = []
        for _ in range(1 if reading is None else LOOKS):
            if reading is not None:
                reading.look()
            with stream:
                table.position.fill_(options.position)
                table.made.fill_(0)
                launch = partial(steps.launch, slots, context.width(options.position + options.turns * 8))
                rounds.append(rig.timed(device, launch, options.turns, 7 if reading is None else 2))
        time_ms = min(rounds, key=lambda one: one["best_ms"])
        rtf = time_ms["ms"] / 1000 * model.facts.frame_rate
        audio = batch / time_ms["ms"] * 1000 / model.facts.frame_rate
        row = {"batch": batch, "captured": capture, **time_ms, "rtf": rtf, "audio_s_per_s": audio}
        found.append(row if reading is None else row | reading.beside(time_ms["best_ms"]))
    return found


def main() -> None:
    options = arguments()
    settings = rig.settings_of(options, slots=max(options.batches), seconds=options.capacity_s)
    model, device, _ = rig.load_model(options, settings)
    rows = frames(options, settings, model, device, device.captures)
    if options.eager and device.captures:
        rows += frames(options, settings, model, device, False)
    names, more = ["batch", "captured", "ms", "best_ms", "rtf", "audio_s_per_s"], [*Reading.FIELDS]
    names += more if more[0] in rows[0] else []
    rig.table(names, [[str(row[name]) if name == "captured" else row[name] for name in names] for row in rows])
    about = rig.about("frame", options, model) | {"position": options.position}
    rig.keep("frame", [about | {"rows": rows} | rig.machine(options, device)], options)


if __name__ == "__main__":
    main()
