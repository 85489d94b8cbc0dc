"""A block of experts for frames of few rows and for prompts, without host reads.

One kernel routes: norm, scores, the experts chosen for each row, and their gates. The rest depends on the number of
rows alone. With few rows, each reads the weights of its own experts, so memory bandwidth decides. With more, a program
computes a tile of one expert's outputs for all rows that chose it, which it finds in the expert's line of `marks`. Each
row's results are added up at the end in the order of its picks, so that the sum does not depend on which program ends
first. Measured on one H200, see benchmarks/LOG.md.

Letters: N rows, P experts of a row, E experts, the shared one included, I width inside one, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels.ops import ExpertBlock
from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait

TILE = 16
"""Rows of one expert that are multiplied together."""
ALONE = 64
"""Rows of a call for each program of one expert. A program takes the expert's tiles of rows in turn."""
TURNS = 4
"""Programs per expert among which its tiles of rows are split, at most."""
LOOK = 256
"""The most rows that are searched at a time for those that chose an expert."""
THINK = (64, 128, 4, 3)
"""Tiles of gate and up where rows are multiplied together: outputs, inputs per iteration, warps, stages."""
ANSWER = (64, 64, 4, 4)
"""The same for the down projection."""


@triton.jit(do_not_specialize=["rows"])
def _route(  # noqa: PLR0915
    x, norm, router, inputs, gates, picks, marks, rows,
    hidden: tl.constexpr, block_h: tl.constexpr, count: tl.constexpr, block_e: tl.constexpr, chosen: tl.constexpr,
    always: tl.constexpr, block_p: tl.constexpr, renormalised: tl.constexpr, eps: tl.constexpr,
    block_k: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """One row: inputs [H], gates and picks [P], and its line of marks [E, N]: the place among its picks, from 1 on."""
    row = tl.program_id(0)
    expert = tl.arange(0, block_e)
    lanes = tl.arange(0, block_k)
    known = expert < count
    here = router + expert[:, None] * hidden + lanes[None, :]
    announce(early)
    tile = tl.load(here, known[:, None], 0.0)
    wait(early)
    column = tl.arange(0, block_h)
    inside = column < hidden
    x += row * hidden
    kind = inputs.dtype.element_ty
    wide = tl.load(x + column, inside, 0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide) / hidden + eps)
    # rounded before the weight, as in the plain version
    normed = (wide * scale).to(kind) * tl.load(norm + column, inside, 0.0)
    tl.store(inputs + row * hidden + column, normed, inside)
    total = tl.zeros((block_e, block_k), tl.float32)
    shared = tl.zeros((block_k,), tl.float32)
    for start in tl.range(0, hidden, block_k):
        k = start + lanes
        part = (tl.load(x + k).to(tl.float32) * scale).to(kind) * tl.load(norm + k)
        total += tile.to(tl.float32) * part.to(tl.float32)[None, :]
        if always:
            shared += tl.load(router + count * hidden + k).to(tl.float32) * part.to(tl.float32)
        tile = tl.load(here + start + block_k, known[:, None] & (start + block_k < hidden), 0.0)
    score = tl.where(known, tl.sum(total, 1), float("-inf"))

    most = tl.max(score, 0)
    whole = tl.sum(tl.exp(score - most), 0)
    place = tl.arange(0, block_p)
    own = tl.zeros((block_p,), tl.int32)
    gating = tl.zeros((block_p,), tl.float32)
    mark = tl.zeros((block_e,), tl.int32)
    left = score
    for one in tl.static_range(chosen):
        # a row of NaN must not index out of bounds
        best = tl.minimum(tl.argmax(left, 0), count - 1)
        chance = tl.exp(tl.max(left, 0) - most) / whole
        own = tl.where(place == one, best, own)
        gating = tl.where(place == one, chance, gating)
        mark = tl.where(expert == best, one + 1, mark)
        left = tl.where(expert == best, float("-inf"), left)
    if renormalised:
        gating /= tl.sum(gating, 0)
    if always:
        own = tl.where(place >= chosen, count + place - chosen, own)
        gating = tl.where(place >= chosen, tl.sigmoid(tl.sum(shared, 0)), gating)
        behind = place >= chosen
        behind &= place < chosen + always
        tl.store(marks + own * rows + row, place + 1, behind)
    tl.store(marks + expert * rows + row, mark, known)
    tl.store(picks + row * (chosen + always) + place, own, place < chosen + always)
    tl.store(gates + row * (chosen + always) + place, gating, place < chosen + always)


@triton.jit
def _think(
    inputs, gate_up, picks, thought, heads: tl.constexpr, inner: tl.constexpr, hidden: tl.constexpr,
    block_n: tl.constexpr, block_k: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """A few outputs of one pick of one row: thought [N, P, I]."""
    n = tl.program_id(0) * block_n + tl.arange(0, block_n)
    lanes = tl.arange(0, block_k)
    pick = tl.program_id(2) * heads + tl.program_id(1)
    announce(early)
    wait(early)
    expert = tl.load(picks + pick).to(tl.int64)
    here = gate_up + expert * (2 * inner * hidden) + n[:, None] * hidden + lanes[None, :]
    inputs += tl.program_id(2) * hidden
    gate = tl.zeros((block_n, block_k), tl.float32)
    up = tl.zeros((block_n, block_k), tl.float32)
    for start in tl.range(0, hidden, block_k):
        part = tl.load(inputs + start + lanes).to(tl.float32)[None, :]
        gate += tl.load(here + start).to(tl.float32) * part
        up += tl.load(here + inner * hidden + start).to(tl.float32) * part
    kind = thought.dtype.element_ty
    y = tl.sum(gate, 1).to(kind).to(tl.float32)
    y = (y * tl.sigmoid(y)).to(kind).to(tl.float32) * tl.sum(up, 1).to(kind).to(tl.float32)
    tl.store(thought + pick * inner + n, y.to(kind))


@triton.jit
def _answer(
    x, thought, down, gates, picks, out, heads: tl.constexpr, inner: tl.constexpr, hidden: tl.constexpr,
    block_n: tl.constexpr, block_k: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """A few outputs of one row. The inner widths of its picks form one long sum."""
    row = tl.program_id(1)
    n = tl.program_id(0) * block_n + tl.arange(0, block_n)
    lanes = tl.arange(0, block_k)
    total = tl.zeros((block_n, block_k), tl.float32)
    announce(early)
    wait(early)
    for start in tl.range(0, heads * inner, block_k):
        k = start + lanes
        inside = k < heads * inner
        pick = row * heads + k // inner
        expert = tl.load(picks + pick, inside, 0).to(tl.int64)
        part = tl.load(thought + row * heads * inner + k, inside, 0.0).to(tl.float32)
        part *= tl.load(gates + pick, inside, 0.0)
        here = (expert * (hidden * inner) + k % inner)[None, :] + n[:, None] * inner
        total += tl.load(down + here, inside[None, :], 0.0).to(tl.float32) * part[None, :]
    y = tl.sum(total, 1) + tl.load(x + row * hidden + n).to(tl.float32)
    tl.store(out + row * hidden + n, y.to(out.dtype.element_ty))


@triton.jit
def _count(marks, rows, look: tl.constexpr):
    """The number of rows that an expert's marks [N] name."""
    total = 0
    for start in tl.range(0, rows, look):
        at = start + tl.arange(0, look)
        total += tl.sum((tl.load(marks + at, at < rows, 0) > 0).to(tl.int32), 0)
    return total


@triton.jit
def _rows_of(marks, rows, first, tile: tl.constexpr, look: tl.constexpr):
    """Of the rows that an expert's marks [N] name, those from the `first` on: row and pick, [tile] each."""
    wanted = first + tl.arange(0, tile)
    row = tl.zeros((tile,), tl.int32)
    pick = tl.zeros((tile,), tl.int32)
    before = 0
    for start in tl.range(0, rows, look):
        at = start + tl.arange(0, look)
        mark = tl.load(marks + at, at < rows, 0)
        named = (mark > 0).to(tl.int32)
        rank = before + tl.cumsum(named, 0) - 1
        own = (named > 0)[None, :] & (rank[None, :] == wanted[:, None])
        row += tl.sum(tl.where(own, at[None, :], 0), 1)
        pick += tl.sum(tl.where(own, mark[None, :] - 1, 0), 1)
        before += tl.sum(named, 0)
    return row, pick


@triton.jit(do_not_specialize=["rows"])
def _think_together(
    inputs, gate_up, marks, thought, rows, heads: tl.constexpr, inner: tl.constexpr, hidden: tl.constexpr,
    tile: tl.constexpr, look: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """A tile of one expert's outputs for the rows that chose it, `tile` rows at a time."""
    n = tl.program_id(0) * block_n + tl.arange(0, block_n)
    # the shared experts, which all rows chose and which take longest, come first
    expert = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    lanes = tl.arange(0, block_k)
    marks += expert * rows
    here = gate_up + expert * (2 * inner * hidden) + n[:, None] * hidden + lanes[None, :]
    kind = thought.dtype.element_ty
    announce(early)
    wait(early)
    count = _count(marks, rows, look)
    for first in tl.range(tl.program_id(2) * tile, count, tl.num_programs(2) * tile):
        row, pick = _rows_of(marks, rows, first, tile, look)
        there = (first + tl.arange(0, tile) < count)[None, :]
        own = inputs + row[None, :] * hidden + lanes[:, None]
        gate = tl.zeros((block_n, tile), tl.float32)
        up = tl.zeros((block_n, tile), tl.float32)
        for start in tl.range(0, hidden, block_k):
            part = tl.load(own + start, there, 0.0)
            gate = tl.dot(tl.load(here + start), part, gate, input_precision="ieee")
            up = tl.dot(tl.load(here + inner * hidden + start), part, up, input_precision="ieee")
        y = gate.to(kind).to(tl.float32)
        y = (y * tl.sigmoid(y)).to(kind).to(tl.float32) * up.to(kind).to(tl.float32)
        tl.store(thought + ((row * heads + pick) * inner)[None, :] + n[:, None], y.to(kind), there)


@triton.jit(do_not_specialize=["rows"])
def _answer_together(
    thought, down, marks, gates, parts, rows, heads: tl.constexpr, inner: tl.constexpr, hidden: tl.constexpr,
    tile: tl.constexpr, look: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """The same for the down projection, scaled by each row's weight of the expert: parts [N, P, H] float32."""
    n = tl.program_id(0) * block_n + tl.arange(0, block_n)
    # the shared experts, which all rows chose and which take longest, come first
    expert = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    lanes = tl.arange(0, block_k)
    marks += expert * rows
    here = down + expert * (hidden * inner) + n[:, None] * inner + lanes[None, :]
    announce(early)
    wait(early)
    count = _count(marks, rows, look)
    for first in tl.range(tl.program_id(2) * tile, count, tl.num_programs(2) * tile):
        row, pick = _rows_of(marks, rows, first, tile, look)
        there = first + tl.arange(0, tile) < count
        at = row * heads + pick
        own = thought + at[None, :] * inner + lanes[:, None]
        total = tl.zeros((block_n, tile), tl.float32)
        for start in tl.range(0, inner, block_k):
            part = tl.load(own + start, there[None, :], 0.0)
            total = tl.dot(tl.load(here + start), part, total, input_precision="ieee")
        total *= tl.load(gates + at, there, 0.0)[None, :]
        tl.store(parts + (at * hidden)[None, :] + n[:, None], total, there[None, :])


@triton.jit
def _add_up(
    x, parts, out, heads: tl.constexpr, hidden: tl.constexpr, block: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    n = tl.program_id(1) * block + tl.arange(0, block)
    inside = n < hidden
    announce(early)
    wait(early)
    total = tl.load(x + row * hidden + n, inside, 0.0).to(tl.float32)
    parts += row * heads * hidden + n
    for pick in tl.static_range(heads):
        total += tl.load(parts + pick * hidden, inside, 0.0)
    tl.store(out + row * hidden + n, total.to(out.dtype.element_ty), inside)


def _turn(inputs: int, most: int) -> int:
    """The largest power of two that divides a number of inputs or outputs, at most `most`."""
    return min(inputs & -inputs, most)


Routed = tuple[Tensor, Tensor, Tensor, Tensor]
"""Rows after the norm, weights and experts [N, P] of the picks, and marks [E, N]."""


def route(x: Tensor, norm: Tensor, eps: float, block: ExpertBlock) -> Routed:
    """One program for each row."""
    every, hidden = block.down.shape[:2]
    rows, always, early = x.numel() // hidden, every - block.count, overlaps()
    heads = block.chosen + always
    inputs, gates = torch.empty_like(x), torch.empty(rows, heads, device=x.device)
    picks = torch.empty(rows, heads, dtype=torch.int32, device=x.device)
    marks = torch.empty(every, rows, dtype=torch.int32, device=x.device)
    _route[(rows,)](
        x, norm, block.router, inputs, gates, picks, marks, rows, hidden, triton.next_power_of_2(hidden), block.count,
        triton.next_power_of_2(block.count), block.chosen, always, triton.next_power_of_2(heads), block.renormalised,
        eps, _turn(hidden, 128), early, num_warps=8, launch_pdl=early,
    )  # fmt: skip
    return inputs, gates, picks, marks


# ---- both as `Ops.experts`; kernels/choose.py says when which one runs


def few(x: Tensor, norm: Tensor, eps: float, block: ExpertBlock, route: Callable[..., Routed] = route) -> Tensor:
    """Each row reads its own experts."""
    every, hidden, inner = block.down.shape
    rows, early, heads = x.numel() // hidden, overlaps(), block.chosen + every - block.count
    x, out = x.contiguous(), torch.empty_like(x)
    inputs, gates, picks, _ = route(x, norm, eps, block)
    thought = torch.empty(rows, heads, inner, dtype=x.dtype, device=x.device)
    _think[(inner // 2, heads, rows)](
        inputs, block.gate_up, picks, thought, heads, inner, hidden, 2, _turn(hidden, 1024), early,
        num_warps=4, launch_pdl=early,
    )  # fmt: skip
    _answer[(hidden // 2, rows)](
        x, thought, block.down, gates, picks, out, heads, inner, hidden, 2, 1024, early,
        num_warps=4, launch_pdl=early,
    )  # fmt: skip
    return out


def together(x: Tensor, norm: Tensor, eps: float, block: ExpertBlock, route: Callable[..., Routed] = route) -> Tensor:
    """Rows that chose the same expert are multiplied together."""
    every, hidden, inner = block.down.shape
    rows, early, heads = x.numel() // hidden, overlaps(), block.chosen + every - block.count
    x, out = x.contiguous(), torch.empty_like(x)
    inputs, gates, _, marks = route(x, norm, eps, block)
    thought = torch.empty(rows, heads, inner, dtype=x.dtype, device=x.device)
    turns, look = min(triton.cdiv(rows, ALONE), TURNS), min(triton.next_power_of_2(rows), LOOK)
    block_n, block_k, warps, stages = THINK
    block_n, block_k = _turn(inner, block_n), _turn(hidden, block_k)
    _think_together[(inner // block_n, every, turns)](
        inputs, block.gate_up, marks, thought, rows, heads, inner, hidden, TILE, look, block_n, block_k, early,
        num_warps=warps, num_stages=stages, launch_pdl=early,
    )  # fmt: skip
    parts = torch.empty(rows, heads, hidden, device=x.device)
    block_n, block_k, warps, stages = ANSWER
    block_n, block_k = _turn(hidden, block_n), _turn(inner, block_k)
    _answer_together[(hidden // block_n, every, turns)](
        thought, block.down, marks, gates, parts, rows, heads, inner, hidden, TILE, look, block_n, block_k, early,
        num_warps=warps, num_stages=stages, launch_pdl=early,
    )  # fmt: skip
    _add_up[(rows, triton.cdiv(hidden, 512))](
        x, parts, out, heads, hidden, 512, early, num_warps=4, launch_pdl=early
    )  # fmt: skip
    return out
