"""Plain PyTorch version of a frame's bookkeeping: what a slot hears next, what group 0 may be, what has come of it.

The truth that faster twins are compared with. Rows that may not move (ended, waiting for text, padding) are
computed like the others and change nothing. The same slot may be given more than once when it may not move.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

RUNNING, END, LIMIT, STALL, BROKEN = range(5)
"""Why a slot has stopped."""


class Columns(Protocol):
    """A table of slots, by column. Frames read and write it; its owner says what each column means."""

    row: Tensor  # [slots, H]
    position: Tensor  # [slots] int64, like all that are not said to be otherwise
    report: Tensor  # [2, slots]: frames made, and why it stopped
    live: Tensor  # [slots] bool
    limit: Tensor
    codes: Tensor  # [slots, frames, G]
    reference: Tensor
    heard: Tensor  # [slots, codes] bool
    last: Tensor
    repeats: Tensor
    text: Tensor  # [slots, text rows, H]
    written: Tensor
    closed: Tensor  # [slots] bool
    pad: Tensor  # [slots, H]


class Tables(Protocol):
    """The rows of codes."""

    first: Tensor  # [V, H]
    rest: Tensor  # [G - 1, codes, H]

    def frame(self, codes: Tensor) -> Tensor:
        """[..., G] -> [..., H]"""
        ...


def begin(table: Columns, slots: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each slot [B]: what it hears now [B, H], at which position, frames made so far, and whether it may move.

    Frame k is followed by text row k. An open, empty feed has to wait.
    """
    made = table.report[0][slots]
    index = made - 1
    there = index < table.written[slots]
    text = table.text[slots, index % table.text.shape[1]]
    text = torch.where(there[:, None], text, table.pad[slots])
    text = torch.where((made > 0)[:, None], text, torch.zeros_like(text))
    may = (made == 0) | there | table.closed[slots]
    return table.row[slots] + text, table.position[slots], made, may & table.live[slots]


def first_scores(
    logits: Tensor,  # [B, V]
    heard: Tensor,  # [B, codes] bool: what the repetition penalty is for
    penalty: Tensor,  # [B] float32
    endless: Tensor,  # [B] bool: may not end yet
    end: int,
) -> Tensor:
    """Group 0 before temperature: penalty, least length, suppression. [B, V] float32."""
    scores = logits.float()
    count = heard.shape[1]
    audio, penalty = scores[:, :count], penalty[:, None]
    audio = torch.where(heard, torch.where(audio < 0, audio * penalty, audio / penalty), audio)
    out = torch.full_like(scores, float("-inf"))
    out[:, :count] = audio
    out[:, end] = scores[:, end].masked_fill(endless, float("-inf"))
    return out


def stop_reasons(ended: Tensor, broken: Tensor, made: Tensor, limit: Tensor, repeats: Tensor, stall: int) -> Tensor:
    """[B] int64 reasons after this frame; the first that holds wins."""
    reason = torch.where(repeats >= stall, STALL, RUNNING)
    reason = torch.where(made >= limit, LIMIT, reason)
    reason = torch.where(ended, END, reason)
    return torch.where(broken, BROKEN, reason)


def finish(
    table: Columns,
    slots: Tensor,  # [B]
    made: Tensor,  # [B], of `begin`
    may: Tensor,
    logits: Tensor,  # [B, V]
    codes: Tensor,  # [B, G], the first of which may be the end
    ignore_end: Tensor,  # [B] bool
    tables: Tables,
    end: int,
    stall: int,
) -> None:
    """Write down what came of this frame, in place."""
    first = codes[:, 0]
    broken = may & ~torch.isfinite(logits).all(-1)
    ended = may & (first == end)
    go = may & ~ended & ~broken

    # an entry behind `made` is not yet a frame, so rows that do not go may write theirs
    table.codes[slots, table.reference[slots] + made] = codes
    audio = first.clamp(max=table.heard.shape[1] - 1)
    table.heard[slots, audio] = table.heard[slots, audio] | go
    table.row[slots] = torch.where(go[:, None], tables.frame(codes), table.row[slots])
    table.position[slots] += go
    table.report[0][slots] = made + go
    repeats = torch.where(go & (first == table.last[slots]), table.repeats[slots] + 1, 1)
    # a user's fixed number of frames is made whatever it sounds like
    repeats = torch.where(ignore_end, 0, repeats)
    table.repeats[slots] = torch.where(go, repeats, table.repeats[slots])
    table.last[slots] = torch.where(go, first, table.last[slots])

    reason = stop_reasons(ended, broken, made + go, table.limit[slots], table.repeats[slots], stall)
    reason = torch.where(may, reason, table.report[1][slots])
    table.report[1][slots] = reason
    table.live[slots] = table.live[slots] & (reason == RUNNING)
