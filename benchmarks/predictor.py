"""The predictor: groups 1..G-1 of one frame for a batch, drawn as in speech, captured where the device can.

    python benchmarks/predictor.py -m random:1.7b-customvoice -b 1,8,16,32,64

It reads its weights once per group, so it moves most of the bytes of a frame. Each row shows the time of one pass
beside that of the frame.
"""

from __future__ import annotations

import argparse
from typing import Any

import rig


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-b", "--batches", type=rig.numbers, default=[1, 4, 10])
    parser.add_argument("--turns", type=int, default=20, help="frames per round")
    parser.add_argument("--greedy", action="store_true", help="the likeliest codes instead of draws")
    return parser.parse_args()


def frame_of(model: Any, device: Any, batch: int, greedy: bool) -> Any:
    """A frame of the predictor over fixed inputs, ready to be run again and again."""
    import torch

    from omnitts_cli.models.roles import Controls
    from omnitts_cli.models.sampling import choose_rest

    controls = Controls.empty(batch, model.device)
    if not greedy:
        controls.predictor_temperature.fill_(model.sampling.predictor_temperature)
        controls.predictor_top_k.fill_(model.sampling.predictor_top_k)
        controls.predictor_top_p.fill_(model.sampling.predictor_top_p)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(batch, model.facts.hidden, generator=generator).to(model.device, model.dtype)  # [B, H]
    first = torch.randint(0, model.facts.codes, (batch,), generator=generator).to(model.device)  # [B]
    made = torch.zeros(batch, dtype=torch.int64, device=model.device)

    table = model.predictor.inputs(model.embedder)[0]
    row = table._replace(rows=table.rows[first], value=None)

    def choose(group: int, scores: torch.Tensor, table: Any) -> Any:
        return choose_rest(group, scores, table, made, controls, model.ops)

    def step() -> None:
        model.predictor.frame(hidden, first, row, model.embedder, choose)

    return device.stream(urgent=True).capture(step)


def main() -> None:
    options = arguments()
    settings = rig.settings_of(options)
    model, device, _ = rig.load_model(options, settings)
    passes = model.facts.groups - 1
    rows = []
    for batch in options.batches:
        time_ms = rig.timed(device, frame_of(model, device, batch, options.greedy), options.turns)
        rows.append({"batch": batch, **time_ms, "pass_us": time_ms["ms"] * 1000 / passes})
    rig.table(
        ["batch", "ms per frame", "best ms", f"us per pass ({passes})"],
        [[row["batch"], row["ms"], row["best_ms"], row["pass_us"]] for row in rows],
    )
    about = rig.about("predictor", options, model) | {"greedy": options.greedy, "captured": device.captures}
    rig.keep("predictor", [about | {"rows": rows} | rig.machine(options, device)], options)


if __name__ == "__main__":
    main()
