"""Sampling: logits + per-row settings + (seed, frame, group) -> a code. There is no generator with a state. The
processors have the official order: repetition penalty, least length, suppression, temperature, top-k, top-p, one draw.
Settings are tensors with one entry per row, so requests with different settings share a batch and a captured graph.
"""

import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Normed, Ops
from omnitts_cli.models.roles import Controls
from omnitts_cli.models.shapes import Facts


def first_scores(
    logits: Tensor,
    seen: Tensor,
    slots: Tensor,
    frames: Tensor,
    controls: Controls,
    facts: Facts,
    ops: Ops = plain.OPS,
) -> Tensor:
    """Group 0 before temperature: penalty, least length, suppression. [B, V] -> [B, V] float32.

    `seen` [slots, codes] says which audio codes a request has already made; prompts do not count.
    """
    least, end = facts.least_frames, facts.end_code
    return ops.first_scores(logits, seen, slots, frames, controls.penalty, controls.ignore_end, least, end)


def choose_first(
    logits: Tensor,
    table: Normed | None,
    seen: Tensor,
    slots: Tensor,
    frames: Tensor,
    controls: Controls,
    facts: Facts,
    ops: Ops,
) -> tuple[Tensor, Normed | None]:
    """The code of group 0, or the end code: [B] int64, and its row of `table` (any row for an end code beyond it)."""
    scores = first_scores(logits, seen, slots, frames, controls, facts, ops)
    return _choose(scores, table, frames, 0, controls, (controls.temperature, controls.top_k, controls.top_p), ops)


def choose_rest(
    group: int, logits: Tensor, table: Normed | None, frames: Tensor, controls: Controls, ops: Ops
) -> tuple[Tensor, Normed | None]:
    """The code of one of the groups 1..G-1: [B] int64, and its row of `table`. No penalty, no suppression, no end."""
    settings = controls.predictor_temperature, controls.predictor_top_k, controls.predictor_top_p
    return _choose(logits, table, frames, group, controls, settings, ops)


def _choose(
    logits: Tensor,
    table: Normed | None,  # rows [codes, W]
    frames: Tensor,
    group: int,
    controls: Controls,
    settings: tuple[Tensor, Tensor, Tensor],
    ops: Ops,
) -> tuple[Tensor, Normed | None]:
    if ops.choose_row is not None:
        return ops.choose_row(logits, controls.seed, frames, group, *settings, table)
    codes = ops.choose(logits, controls.seed, frames, group, *settings)
    if table is None:
        return codes, None
    # the end code may have no row
    codes_there = codes.clamp(max=len(table.rows) - 1) if group == 0 else codes
    return codes, Normed(F.embedding(codes_there, table.rows), table.weight, table.eps)


CANDIDATES = 1024
"""The number of likeliest tokens that a draw considers. Sorting a whole vocabulary of 152,064 would take as long as a
step."""


def choose_token(
    logits: Tensor,  # [B, V] float32
    seeds: Tensor,
    steps: Tensor,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    ops: Ops = plain.OPS,
) -> Tensor:
    """One token per row from a large vocabulary: [B] int64. The draw is addressed by (seed, step)."""
    likely, ids = logits.topk(min(CANDIDATES, logits.shape[-1]), -1)
    place = ops.choose(likely, seeds, steps, 0, temperature, top_k, top_p)
    return ids.gather(1, place[:, None])[:, 0]
