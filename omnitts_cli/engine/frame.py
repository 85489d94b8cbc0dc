"""One frame for many slots: talker, group 0, predictor, next input, stop flags.

A plain function of fixed shapes without a word from the host, so that it can be captured whole.
"""

from __future__ import annotations

from torch import Tensor

from omnitts_cli.engine.slots import SlotTable
from omnitts_cli.models.cache import KVCache
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.sampling import choose_first, choose_rest


def frame(model: SpeechModel, table: SlotTable, cache: KVCache, slots: Tensor, width: int, stall: int) -> None:
    """Advance `slots` [B] by one frame, in place. `width` bounds every position of this call."""
    facts, ops = model.facts, model.ops
    controls = table.controls.rows(slots)
    rows, positions, made, may = ops.begin(table, slots)
    hidden = model.talker.step(rows, positions, slots, cache, width)
    logits = model.talker.logits(hidden)
    first = choose_first(logits, table.seen[slots], made, controls, facts, ops)
    codes = model.predictor.frame(
        hidden, first, model.embedder, lambda group, scores: choose_rest(group, scores, made, controls, ops)
    )
    ops.finish(table, slots, made, may, logits, codes, controls.ignore_end, model.embedder, facts.end_code, stall)
