"""A frame's bookkeeping on a CPU: with NumPy for all slots at once where possible, else slot by slot."""

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.kernels import plain_frame
from omnitts_cli.kernels.ops import BROKEN, END, LIMIT, RUNNING, STALL, CodeTables, Columns


def begin(table: Columns, slots: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if table.row.dtype != torch.float32:  # NumPy knows no bfloat16
        return plain_frame.begin(table, slots)
    where = slots.tolist()
    made = table.report.numpy()[0, where]
    rows = table.row.numpy()[where]
    text, pad, written = table.text.numpy(), table.pad.numpy(), table.written.numpy()
    live, closed = table.live.numpy(), table.closed.numpy()
    may = np.empty(len(where), np.bool_)
    for row, (slot, frame) in enumerate(zip(where, made.tolist(), strict=True)):
        there = frame <= written[slot]
        may[row] = live[slot] and (frame == 0 or there or closed[slot])
        if frame > 0:
            rows[row] += text[slot, (frame - 1) % text.shape[1]] if there else pad[slot]
    positions = table.position.numpy()[where]
    return torch.from_numpy(rows), torch.from_numpy(positions), torch.from_numpy(made), torch.from_numpy(may)


def first_scores(
    logits: Tensor,
    seen: Tensor,
    slots: Tensor,
    frames: Tensor,
    penalty: Tensor,
    ignore_end: Tensor,
    least: int,
    end: int,
) -> Tensor:
    given, count = logits.float().numpy(), seen.shape[1]
    endless = (frames.numpy() < least) | ignore_end.numpy()
    scores = np.full_like(given, -np.inf)
    audio, factor = given[:, :count], penalty.numpy()[:, None]
    scores[:, :count] = np.where(
        seen.numpy()[slots.numpy()], np.where(audio < 0, audio * factor, audio / factor), audio
    )
    scores[:, end] = np.where(endless, -np.inf, given[:, end])
    return torch.from_numpy(scores)


def finish(
    table: Columns,
    slots: Tensor,
    made: Tensor,
    may: Tensor,
    logits: Tensor,
    codes: Tensor,
    ignore_end: Tensor,
    tables: CodeTables,
    end: int,
    stall: int,
) -> None:
    where, before, own = slots.numpy(), made.numpy(), codes.numpy()
    finite = np.isfinite(logits.float().numpy()).all(-1)
    all_made, stops = table.report.numpy()
    live, repeats, last = table.live.numpy(), table.repeats.numpy(), table.last.numpy()
    seen, limit, position = table.seen.numpy(), table.limit.numpy(), table.position.numpy()
    # entries from `made` on are not frames yet, so rows that do not advance may write theirs too
    table.codes.numpy()[where, table.reference.numpy()[where] + before] = own
    going = []
    rows = zip(where.tolist(), before.tolist(), own[:, 0].tolist(), may.tolist(), ignore_end.tolist(), strict=True)
    for row, (slot, frame, first, moves, endless) in enumerate(rows):
        if not moves:
            continue
        if not finite[row]:
            stops[slot] = BROKEN
        elif first == end:
            stops[slot] = END
        else:
            going.append(row)
            seen[slot, min(first, seen.shape[1] - 1)] = True
            position[slot] += 1
            all_made[slot] = frame + 1
            # a request for a fixed number of frames has no stall limit
            repeats[slot] = 0 if endless else repeats[slot] + 1 if first == last[slot] else 1
            last[slot] = first
            stops[slot] = LIMIT if frame + 1 >= limit[slot] else STALL if repeats[slot] >= stall else RUNNING
        live[slot] = stops[slot] == RUNNING
    if len(going) < len(own):
        slots, codes = slots[going], codes[going]
    table.row.index_copy_(0, slots, tables.frame(codes))
