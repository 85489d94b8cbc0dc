"""Sampling: logits + per-row settings + (seed, frame, group) -> a code. No hidden generator.

The order of processors is the official one: repetition penalty, least length, suppression,
temperature, top-k, top-p, one draw. Settings are tensors with one entry per row, so requests with
different settings share a batch and a captured graph.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.roles import Facts


@dataclass(frozen=True)
class Controls:
    """Per-row settings, each [B] (in a slot table: [slots])."""

    seed: Tensor  # int64
    temperature: Tensor  # float32; 0: the likeliest
    top_k: Tensor  # int64; 0: all
    top_p: Tensor  # float32
    penalty: Tensor  # float32; of group 0
    predictor_temperature: Tensor
    predictor_top_k: Tensor
    predictor_top_p: Tensor
    ignore_end: Tensor  # bool; the end code is never chosen

    def rows(self, slots: Tensor) -> Controls:
        """The settings of some slots: every column indexed by `slots` [B]."""
        return Controls(**{f.name: getattr(self, f.name).index_select(0, slots) for f in fields(self)})

    @staticmethod
    def empty(slots: int, device: torch.device | str) -> Controls:
        """Columns for `slots` slots, greedy until somebody writes them."""
        whole = {"seed", "top_k", "predictor_top_k"}
        columns = {
            f.name: torch.zeros(slots, device=device, dtype=torch.int64 if f.name in whole else torch.float32)
            for f in fields(Controls)
        }
        columns["ignore_end"] = columns["ignore_end"].bool()
        columns["penalty"] += 1
        return Controls(**columns)


def first_scores(
    logits: Tensor, heard: Tensor, frames: Tensor, controls: Controls, facts: Facts, ops: Ops = plain.OPS
) -> Tensor:
    """Group 0 before temperature: penalty, least length, suppression. [B, V] -> [B, V] float32.

    `heard` [B, codes] says which audio codes this request has already made; prompts do not count.
    """
    endless = (frames < facts.least_frames) | controls.ignore_end
    return ops.first_scores(logits, heard, controls.penalty, endless, facts.end_code)


def choose_first(logits: Tensor, heard: Tensor, frames: Tensor, controls: Controls, facts: Facts, ops: Ops) -> Tensor:
    """The code of group 0, or the end code: [B] int64."""
    scores = first_scores(logits, heard, frames, controls, facts, ops)
    return ops.choose(scores, controls.seed, frames, 0, controls.temperature, controls.top_k, controls.top_p)


def choose_rest(group: int, logits: Tensor, frames: Tensor, controls: Controls, ops: Ops) -> Tensor:
    """The code of one of the groups 1..G-1: [B] int64. No penalty, no suppression, no end."""
    return ops.choose(
        logits,
        controls.seed,
        frames,
        group,
        controls.predictor_temperature,
        controls.predictor_top_k,
        controls.predictor_top_p,
    )
