"""A frame's bookkeeping in four kernels, one program per row; with plain operations it takes more than a hundred."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels import ops, plain_frame
from omnitts_cli.kernels.ops import CodeTables, Columns
from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait

RUNNING = tl.constexpr(ops.RUNNING)
END = tl.constexpr(ops.END)
LIMIT = tl.constexpr(ops.LIMIT)
STALL = tl.constexpr(ops.STALL)
BROKEN = tl.constexpr(ops.BROKEN)


@triton.jit
def _begin(
    row, text, pad, position, report, live, written, closed, slots, rows_out, positions_out, made_out, may_out,
    ring: tl.constexpr, width: tl.constexpr, block: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(0)
    column = tl.arange(0, block)
    inside = column < width
    announce(early)
    wait(early)
    slot = tl.load(slots + batch)
    made = tl.load(report + slot)
    there = made <= tl.load(written + slot)
    may = ((made == 0) | there | tl.load(closed + slot)) & tl.load(live + slot)
    own = tl.load(row + slot * width + column, inside, 0.0)
    if made > 0:
        if there:
            own += tl.load(text + (slot * ring + (made - 1) % ring) * width + column, inside, 0.0)
        else:
            own += tl.load(pad + slot * width + column, inside, 0.0)
    tl.store(rows_out + batch * width + column, own, inside)
    tl.store(positions_out + batch, tl.load(position + slot))
    tl.store(made_out + batch, made)
    tl.store(may_out + batch, may)


def begin(table: Columns, slots: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (batch,), (_, ring, width) = slots.shape, table.text.shape
    rows = torch.empty((batch, width), dtype=table.row.dtype, device=slots.device)
    positions, made = torch.empty_like(slots), torch.empty_like(slots)
    may = torch.empty(batch, dtype=torch.bool, device=slots.device)
    _begin[(batch,)](
        table.row, table.text, table.pad, table.position, table.report, table.live, table.written, table.closed,
        slots, rows, positions, made, may,
        ring, width, triton.next_power_of_2(width), overlaps(), num_warps=4, launch_pdl=overlaps(),
    )  # fmt: skip
    return rows, positions, made, may


@triton.jit
def _pick(
    first_whole, second_whole, third_whole, first_real, second_real, third_real, fourth_real, fifth_real, flag,
    slots, wholes, reals, flags, count, early: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(0)
    announce(early)
    wait(early)
    slot = tl.load(slots + batch)
    tl.store(wholes + batch, tl.load(first_whole + slot))
    tl.store(wholes + count + batch, tl.load(second_whole + slot))
    tl.store(wholes + 2 * count + batch, tl.load(third_whole + slot))
    tl.store(reals + batch, tl.load(first_real + slot))
    tl.store(reals + count + batch, tl.load(second_real + slot))
    tl.store(reals + 2 * count + batch, tl.load(third_real + slot))
    tl.store(reals + 3 * count + batch, tl.load(fourth_real + slot))
    tl.store(reals + 4 * count + batch, tl.load(fifth_real + slot))
    tl.store(flags + batch, tl.load(flag + slot))


def pick(columns: Sequence[Tensor], slots: Tensor) -> list[Tensor]:
    """One kernel if the columns are those of a frame's controls: three int64, five float32 and one bool."""
    by_kind = {kind: [c for c in columns if c.dtype == kind] for kind in (torch.int64, torch.float32, torch.bool)}
    whole, real, flag = by_kind.values()
    if (len(whole), len(real), len(flag), len(columns)) != (3, 5, 1, 9):
        return plain_frame.pick(columns, slots)
    (count,) = slots.shape
    out = [torch.empty((len(of_kind), count), dtype=kind, device=slots.device) for kind, of_kind in by_kind.items()]
    _pick[(count,)](*whole, *real, *flag, slots, *out, count, overlaps(), num_warps=1, launch_pdl=overlaps())
    rows = {kind: iter(made) for kind, made in zip(by_kind, out, strict=True)}
    return [next(rows[column.dtype]) for column in columns]


@triton.jit
def _first_scores(
    logits, seen, slots, frames, penalty, ignore_end, out,
    least: tl.constexpr, end: tl.constexpr, audio: tl.constexpr, size: tl.constexpr, block: tl.constexpr,
    early: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(0)
    code = tl.arange(0, block)
    announce(early)
    wait(early)
    score = tl.load(logits + batch * size + code, code < size, 0.0).to(tl.float32)
    said = tl.load(seen + tl.load(slots + batch) * audio + code, code < audio, 0).to(tl.int1)
    factor = tl.load(penalty + batch)
    score = tl.where(said, tl.where(score < 0, score * factor, tl.div_rn(score, factor)), score)
    may_end = (tl.load(frames + batch) >= least) & (tl.load(ignore_end + batch) == 0)
    score = tl.where((code < audio) | ((code == end) & may_end), score, float("-inf"))
    tl.store(out + batch * size + code, score, code < size)


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
    logits, seen = logits.contiguous(), seen.contiguous()
    batch, size = logits.shape
    out = torch.empty((batch, size), dtype=torch.float32, device=logits.device)
    _first_scores[(batch,)](
        logits, seen, slots, frames, penalty, ignore_end, out,
        least, end, seen.shape[1], size, triton.next_power_of_2(size), overlaps(), num_warps=8, launch_pdl=overlaps(),
    )  # fmt: skip
    return out


@triton.jit
def _finish(
    row, position, report, live, limit, table_codes, reference, seen, last, repeats,
    slots, made_in, may_in, logits, codes, ignore_end, first_table, rest_table,
    count, frames: tl.constexpr, groups: tl.constexpr, audio: tl.constexpr, size: tl.constexpr, width: tl.constexpr,
    end: tl.constexpr, stall: tl.constexpr,
    block: tl.constexpr, size_block: tl.constexpr, group_block: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(0)
    announce(early)
    wait(early)
    slot = tl.load(slots + batch)
    made = tl.load(made_in + batch)
    may = tl.load(may_in + batch).to(tl.int1)
    first = tl.load(codes + batch * groups)
    code = tl.arange(0, size_block)
    score = tl.load(logits + batch * size + code, code < size, 0.0).to(tl.float32)
    # NaN and infinities
    lost = tl.sum(tl.where(tl.abs(score) < float("inf"), 0, 1))
    broken = may & (lost > 0)
    go = may & (first != end) & (lost == 0)

    group = tl.arange(0, group_block)
    own = tl.load(codes + batch * groups + group, group < groups, 0)
    place = (slot * frames + tl.load(reference + slot) + made) * groups
    tl.store(table_codes + place + group, own, group < groups)
    if go:
        tl.store(seen + slot * audio + first, 1)
        column = tl.arange(0, block)
        inside = column < width
        total = tl.load(first_table + first * width + column, inside, 0.0).to(tl.float32)
        for one in tl.static_range(1, groups):
            line = (one - 1) * audio + tl.load(codes + batch * groups + one)
            total += tl.load(rest_table + line * width + column, inside, 0.0).to(tl.float32)
        tl.store(row + slot * width + column, total.to(row.dtype.element_ty), inside)
        tl.store(position + slot, tl.load(position + slot) + 1)
        again = tl.where(first == tl.load(last + slot), tl.load(repeats + slot) + 1, 1)
        again = tl.where(tl.load(ignore_end + batch).to(tl.int1), 0, again)
        tl.store(repeats + slot, again)
        tl.store(last + slot, first)
        made += 1
        tl.store(report + slot, made)
        reason = tl.where(made >= tl.load(limit + slot), LIMIT, tl.where(again >= stall, STALL, RUNNING))
        if reason != RUNNING:
            tl.store(report + count + slot, reason.to(tl.int64))
            tl.store(live + slot, 0)
    else:
        if may:
            tl.store(report + count + slot, tl.where(broken, BROKEN, END).to(tl.int64))
            tl.store(live + slot, 0)


def finish(
    table: Columns, slots: Tensor, made: Tensor, may: Tensor, logits: Tensor, codes: Tensor, ignore_end: Tensor,
    tables: CodeTables, end: int, stall: int,
) -> None:  # fmt: skip
    logits, codes = logits.contiguous(), codes.contiguous()
    (count, frames, groups), (batch, size), width = table.codes.shape, logits.shape, table.row.shape[1]
    power = triton.next_power_of_2
    _finish[(batch,)](
        table.row, table.position, table.report, table.live, table.limit, table.codes, table.reference, table.seen,
        table.last, table.repeats, slots, made, may, logits, codes, ignore_end, tables.first, tables.rest,
        count, frames, groups, table.seen.shape[1], size, width, end, stall,
        power(width), power(size), power(groups), overlaps(), num_warps=8, launch_pdl=overlaps(),
    )  # fmt: skip
