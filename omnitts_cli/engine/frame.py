"""One frame for many slots: talker, group 0, predictor, next input, stop flags.

A plain function of fixed shapes that never reads a value on the host, so it can be captured as one graph.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from omnitts_cli.engine.slots import SlotTable
from omnitts_cli.kernels.ops import FrameParts, Normed
from omnitts_cli.models.layers import KVCache
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.sampling import choose_first, choose_rest


def frame(model: SpeechModel, table: SlotTable, cache: KVCache, slots: Tensor, width: int, stall: int) -> None:
    """Advance `slots` [B] by one frame, in place. `width` bounds every position of this call."""
    facts, ops = model.facts, model.ops
    controls = table.controls.rows(slots, ops)
    rows, positions, made, may = ops.begin(table, slots)
    hidden = model.talker.step(rows, positions, slots, cache, width)
    logits = model.talker.logits(hidden)
    first_table = model.predictor.inputs(model.embedder)[0]
    first, row = choose_first(logits, first_table, table.seen, slots, made, controls, facts, ops)

    def choose(group: int, scores: Tensor, rows: Normed | None) -> tuple[Tensor, Normed | None]:
        return choose_rest(group, scores, rows, made, controls, ops)

    fused = model.predictor.fused
    if fused is not None and row is not None and slots.shape[0] <= fused.most_rows:
        codes = model.predictor.fused_frame(hidden, first, row, made, controls)
    else:
        codes = model.predictor.frame(hidden, first, row, model.embedder, choose)
    ops.finish(table, slots, made, may, logits, codes, controls.ignore_end, model.embedder, facts.end_code, stall)


def fused_frame(model: SpeechModel, table: SlotTable, cache: KVCache, stall: int) -> Callable[[Tensor], None] | None:
    """`frame` as one operation on slots [B], where the device has one for this model."""
    facts, ops, predictor = model.facts, model.ops, model.predictor
    if ops.fuse_frame is None or predictor.stack.fused is None or model.talker.stack.fused is None:
        return None
    project = None if predictor.project is None else (predictor.project.weight.data, predictor.project.bias.data)
    return ops.fuse_frame(
        FrameParts(
            talker=model.talker.stack.fused,
            predictor=predictor.stack.fused,
            cache=cache,
            turns=predictor.turns,
            head=model.talker.head.data,
            heads=predictor.heads.data,
            project=project,
            inputs=predictor.tables(model.embedder),
            first=model.embedder.first.data,
            rest=model.embedder.rest.data,
            table=table,
            controls=table.controls,
            end=facts.end_code,
            least_frames=facts.least_frames,
            stall=stall,
        )
    )
