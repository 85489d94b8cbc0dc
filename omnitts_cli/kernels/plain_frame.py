"""Plain PyTorch version of a frame's bookkeeping: each slot's next input, the scores of group 0, the table after it.

The reference for faster versions. Rows that may not advance (ended, waiting for text, padding) are computed like the
others and change nothing. A slot that may not advance may occur more than once.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from omnitts_cli.kernels.ops import BROKEN, END, LIMIT, RUNNING, STALL, CodeTables, Columns


def begin(table: Columns, slots: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each slot [B]: its input row [B, H], its position, frames made so far, and whether it may advance.

    Text row k is added to the input after frame k. A slot with an open, empty feed has to wait.
    """
    made = table.report[0][slots]
    index = made - 1
    there = index < table.written[slots]
    text = table.text[slots, index % table.text.shape[1]]
    text = torch.where(there[:, None], text, table.pad[slots])
    text = torch.where((made > 0)[:, None], text, torch.zeros_like(text))
    may = (made == 0) | there | table.closed[slots]
    return table.row[slots] + text, table.position[slots], made, may & table.live[slots]


def pick(columns: Sequence[Tensor], slots: Tensor) -> list[Tensor]:
    """The entries of `slots` [B] in each of the columns [slots]."""
    return [column.index_select(0, slots) for column in columns]


def first_scores(
    logits: Tensor,  # [B, V]
    seen: Tensor,  # [slots, codes] bool: what the repetition penalty is for
    slots: Tensor,  # [B] int64
    frames: Tensor,  # [B] int64, made so far
    penalty: Tensor,  # [B] float32
    ignore_end: Tensor,  # [B] bool
    least: int,  # frames before which the end code may not come
    end: int,
) -> Tensor:
    """Group 0 before temperature: penalty, least length, suppression. [B, V] float32."""
    scores, seen = logits.float(), seen[slots]
    endless = (frames < least) | ignore_end
    count = seen.shape[1]
    audio, penalty = scores[:, :count], penalty[:, None]
    audio = torch.where(seen, torch.where(audio < 0, audio * penalty, audio / penalty), audio)
    out = torch.full_like(scores, float("-inf"))
    out[:, :count] = audio
    out[:, end] = scores[:, end].masked_fill(endless, float("-inf"))
    return out


def stop_reasons(ended: Tensor, broken: Tensor, made: Tensor, limit: Tensor, repeats: Tensor, stall: int) -> Tensor:
    """Stop reasons after this frame, [B] int64; the first one that applies."""
    reason = torch.where(repeats >= stall, STALL, RUNNING)
    reason = torch.where(made >= limit, LIMIT, reason)
    reason = torch.where(ended, END, reason)
    return torch.where(broken, BROKEN, reason)


def finish(
    table: Columns,
    slots: Tensor,  # [B] int64
    made: Tensor,  # [B], of `begin`
    may: Tensor,  # [B] bool, likewise
    logits: Tensor,  # [B, V]
    codes: Tensor,  # [B, G]; group 0 may be the end code
    ignore_end: Tensor,  # [B] bool
    tables: CodeTables,
    end: int,
    stall: int,
) -> None:
    """Write the results of this frame into the table, in place."""
    first = codes[:, 0]
    broken = may & ~torch.isfinite(logits).all(-1)
    ended = may & (first == end)
    go = may & ~ended & ~broken

    # entries from `made` on are not frames yet, so rows that do not advance may write theirs too
    table.codes[slots, table.reference[slots] + made] = codes
    audio = first.clamp(max=table.seen.shape[1] - 1)
    table.seen[slots, audio] = table.seen[slots, audio] | go
    table.row[slots] = torch.where(go[:, None], tables.frame(codes), table.row[slots])
    table.position[slots] += go
    table.report[0][slots] = made + go
    repeats = torch.where(go & (first == table.last[slots]), table.repeats[slots] + 1, 1)
    # a request for a fixed number of frames has no stall limit
    repeats = torch.where(ignore_end, 0, repeats)
    table.repeats[slots] = torch.where(go, repeats, table.repeats[slots])
    table.last[slots] = torch.where(go, first, table.last[slots])

    reason = stop_reasons(ended, broken, made + go, table.limit[slots], table.repeats[slots], stall)
    reason = torch.where(may, reason, table.report[1][slots])
    table.report[1][slots] = reason
    table.live[slots] = table.live[slots] & (reason == RUNNING)
