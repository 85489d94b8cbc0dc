"""One frame for many slots: talker, group 0, predictor, next input, stop flags.

A plain function of fixed shapes without a word from the host, so that it can be captured whole. Rows
that may not move (ended, waiting for text, padding) are computed like the others and change nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omnitts_cli.engine.slots import SlotTable, Stop
from omnitts_cli.models.cache import KVCache
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.sampling import choose_first, choose_rest


def next_rows(table: SlotTable, slots: Tensor, made: Tensor) -> tuple[Tensor, Tensor]:
    """What each slot hears now [B, H], and whether it may: an open, empty feed has to wait."""
    index = made - 1  # frame k is followed by text row k
    there = index < table.written[slots]
    text = table.text[slots, index % table.text.shape[1]]
    text = torch.where(there[:, None], text, table.pad[slots])
    text = torch.where((made > 0)[:, None], text, torch.zeros_like(text))
    return table.row[slots] + text, (made == 0) | there | table.closed[slots]


def stop_reasons(ended: Tensor, broken: Tensor, made: Tensor, limit: Tensor, repeats: Tensor, stall: int) -> Tensor:
    """[B] int64 Stop values after this frame; the first that holds wins."""
    reason = torch.where(repeats >= stall, int(Stop.STALL), int(Stop.RUNNING))
    reason = torch.where(made >= limit, int(Stop.LIMIT), reason)
    reason = torch.where(ended, int(Stop.END), reason)
    return torch.where(broken, int(Stop.BROKEN), reason)


def frame(model: SpeechModel, table: SlotTable, cache: KVCache, slots: Tensor, width: int, stall: int) -> None:
    """Advance `slots` [B] by one frame, in place. `width` bounds every position of this call."""
    facts, ops = model.facts, model.ops
    controls = table.controls.rows(slots)
    made = table.made[slots]
    rows, may = next_rows(table, slots, made)
    may = may & table.live[slots]

    hidden = model.talker.step(rows, table.position[slots], slots, cache, width)
    logits = model.talker.logits(hidden)
    broken = may & ~torch.isfinite(logits).all(-1)
    first = choose_first(logits, table.heard[slots], made, controls, facts, ops)
    ended = may & (first == facts.end_code)
    go = may & ~ended & ~broken
    codes = model.predictor.frame(
        hidden, first, model.embedder, lambda group, scores: choose_rest(group, scores, made, controls, ops)
    )

    # an entry behind `made` is not yet a frame, so rows that do not go may write theirs
    table.codes[slots, table.reference[slots] + made] = codes
    audio = first.clamp(max=facts.codes - 1)
    table.heard[slots, audio] = table.heard[slots, audio] | go
    table.row[slots] = torch.where(go[:, None], model.embedder.frame(codes), table.row[slots])
    table.position[slots] += go
    table.made[slots] = made + go
    repeats = torch.where(go & (first == table.last[slots]), table.repeats[slots] + 1, 1)
    # a user's fixed number of frames is made whatever it sounds like
    repeats = torch.where(controls.ignore_end, 0, repeats)
    table.repeats[slots] = torch.where(go, repeats, table.repeats[slots])
    table.last[slots] = torch.where(go, first, table.last[slots])

    reason = stop_reasons(ended, broken, made + go, table.limit[slots], table.repeats[slots], stall)
    reason = torch.where(may, reason, table.stop[slots])
    table.stop[slots] = reason
    table.live[slots] = table.live[slots] & (reason == int(Stop.RUNNING))
