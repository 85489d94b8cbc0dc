"""Experts of long prompts: the library's grouped products, and five kernels for everything between them.

The rows of each expert have to lie together for a grouped product. They are counted and placed instead of sorted: each
block of rows counts its choices, one program turns the counts into places, and the rows are copied there. After the
second product, each row adds up the outputs of its experts from their places, in float32.

`choose` and `row_scores` also route the few rows of a step, so that several programs read the router instead of one per
row.

Letters: N rows, E experts, K chosen by a row, I width inside one, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels.ops import ExpertBlock
from omnitts_cli.kernels.triton.norms import rms_norm
from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait

TILE = 32
"""Rows of a block."""
BLOCKS = 64
"""Blocks whose counts are added up at a time."""
SHARE = 4
"""Experts whose scores one program computes in a step."""

Product = Callable[..., Tensor]
"""rows [N K, A], weights [E, A, B], offs=ends [E] -> [N K, B]."""


@triton.jit(do_not_specialize=["rows"])
def _choose(
    scores, picks, gates, counts, marks, rows, count: tl.constexpr, block_e: tl.constexpr, chosen: tl.constexpr,
    block_p: tl.constexpr, renormalised: tl.constexpr, tile: tl.constexpr, counted: tl.constexpr,
    marked: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """For a block of rows: picks and gates [N, K], and how often each expert was chosen, counts [blocks, E].

    With `marked`, also marks [E, N]: the place of an expert among a row's picks, from 1 on; 0 if it was not chosen.
    """
    row = tl.program_id(0) * tile + tl.arange(0, tile)
    expert = tl.arange(0, block_e)
    inside = (row < rows)[:, None]
    known = inside & (expert < count)[None, :]
    announce(early)
    wait(early)
    score = tl.load(scores + row[:, None] * count + expert[None, :], known, float("-inf"))
    # a row of NaN chooses different experts too, so that its picks have different places
    score = tl.where(score == score, score, -1e38)
    score = tl.where((expert < count)[None, :], score, float("-inf"))
    most = tl.max(score, 1)
    whole = tl.sum(tl.exp(score - most[:, None]), 1)
    place = tl.arange(0, block_p)
    own = tl.zeros((tile, block_p), tl.int32)
    gating = tl.zeros((tile, block_p), tl.float32)
    mark = tl.zeros((tile, block_e), tl.int32)
    left = score
    for one in tl.static_range(chosen):
        best = tl.argmax(left, 1)
        chance = tl.exp(tl.max(left, 1) - most) / whole
        own = tl.where((place == one)[None, :], best[:, None], own)
        gating = tl.where((place == one)[None, :], chance[:, None], gating)
        here = expert[None, :] == best[:, None]
        mark = tl.where(here, one + 1, mark)
        left = tl.where(here, float("-inf"), left)
    if renormalised:
        gating /= tl.sum(gating, 1)[:, None]
    target = row[:, None] * chosen + place[None, :]
    tl.store(picks + target, own, inside & (place < chosen)[None, :])
    tl.store(gates + target, gating, inside & (place < chosen)[None, :])
    if counted:
        chose = tl.where(inside, (mark > 0).to(tl.int32), 0)
        tl.store(counts + tl.program_id(0) * count + expert, tl.sum(chose, 0), expert < count)
    if marked:
        tl.store(marks + expert[None, :] * rows + row[:, None], mark, known)


@triton.jit(do_not_specialize=["blocks"])
def _offsets(
    counts, offsets, ends, blocks, count: tl.constexpr, block_e: tl.constexpr, block_b: tl.constexpr,
    early: tl.constexpr,
):  # fmt: skip
    """Counts [blocks, E] -> the first place of each block's rows of an expert, [blocks, E], and the ends [E]."""
    expert = tl.arange(0, block_e)
    block = tl.arange(0, block_b)
    announce(early)
    wait(early)
    total = tl.zeros((block_e,), tl.int32)
    for start in tl.range(0, blocks, block_b):
        at = start + block
        held = (at < blocks)[:, None] & (expert < count)[None, :]
        total += tl.sum(tl.load(counts + at[:, None] * count + expert[None, :], held, 0), 0)
    end = tl.cumsum(total, 0)
    tl.store(ends + expert, end, expert < count)
    base = end - total
    for start in tl.range(0, blocks, block_b):
        at = start + block
        held = (at < blocks)[:, None] & (expert < count)[None, :]
        near = at[:, None] * count + expert[None, :]
        own = tl.load(counts + near, held, 0)
        tl.store(offsets + near, base[None, :] + tl.cumsum(own, 0) - own, held)
        base += tl.sum(own, 0)


@triton.jit(do_not_specialize=["rows"])
def _place(
    picks, offsets, places, rows, count: tl.constexpr, block_e: tl.constexpr, chosen: tl.constexpr,
    tile: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """Where each pick of a block of rows goes: places [N, K]. Rows of one expert keep their order."""
    row = tl.program_id(0) * tile + tl.arange(0, tile)
    expert = tl.arange(0, block_e)
    inside = row < rows
    announce(early)
    wait(early)
    first = tl.load(offsets + tl.program_id(0) * count + expert, expert < count, 0)
    chose = tl.zeros((tile, block_e), tl.int32)
    for one in tl.static_range(chosen):
        pick = tl.load(picks + row * chosen + one, inside, count)
        chose = tl.where(expert[None, :] == pick[:, None], 1, chose)
    target = first[None, :] + tl.cumsum(chose, 0) - chose
    for one in tl.static_range(chosen):
        pick = tl.load(picks + row * chosen + one, inside, count)
        mine = tl.sum(tl.where(expert[None, :] == pick[:, None], target, 0), 1)
        tl.store(places + row * chosen + one, mine, inside)


@triton.jit
def _spread(
    inputs, places, spread, hidden: tl.constexpr, block: tl.constexpr, chosen: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """A part of one row [H], copied to each of its places."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < hidden
    announce(early)
    wait(early)
    part = tl.load(inputs + row * hidden + column, inside, 0.0)
    for one in tl.static_range(chosen):
        place = tl.load(places + row * chosen + one).to(tl.int64)
        tl.store(spread + place * hidden + column, part, inside)


@triton.jit
def _gate(wide, out, inner: tl.constexpr, block: tl.constexpr, early: tl.constexpr):
    """[.., 2 I], gate first -> silu(gate) * up [.., I], rounded where the plain version rounds."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, block)
    inside = column < inner
    kind = out.dtype.element_ty
    announce(early)
    wait(early)
    gate = tl.load(wide + row * 2 * inner + column, inside, 0.0).to(tl.float32)
    up = tl.load(wide + row * 2 * inner + inner + column, inside, 0.0).to(tl.float32)
    gate = (gate * tl.sigmoid(gate)).to(kind).to(tl.float32)
    tl.store(out + row * inner + column, (gate * up).to(kind), inside)


@triton.jit
def _collect(
    x, made, places, gates, out, hidden: tl.constexpr, block: tl.constexpr, chosen: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """A part of one row [H] plus its answers, each scaled by its weight."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < hidden
    announce(early)
    wait(early)
    total = tl.zeros((block,), tl.float32)
    for one in tl.static_range(chosen):
        place = tl.load(places + row * chosen + one).to(tl.int64)
        share = tl.load(gates + row * chosen + one)
        total += share * tl.load(made + place * hidden + column, inside, 0.0).to(tl.float32)
    total += tl.load(x + row * hidden + column, inside, 0.0).to(tl.float32)
    tl.store(out + row * hidden + column, total.to(out.dtype.element_ty), inside)


@triton.jit
def _row_scores(
    x, norm, router, inputs, scores, hidden: tl.constexpr, block: tl.constexpr, count: tl.constexpr,
    share: tl.constexpr, eps: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """One row: its norm, inputs [N, H], and its scores of `share` experts, [N, E] float32."""
    row = tl.program_id(0)
    expert = tl.program_id(1) * share + tl.arange(0, share)
    column = tl.arange(0, block)
    inside = column < hidden
    kind = inputs.dtype.element_ty
    announce(early)
    weights = tl.load(
        router + expert[:, None] * hidden + column[None, :], (expert < count)[:, None] & inside[None, :], 0.0
    )
    scale = tl.load(norm + column, inside, 0.0)
    wait(early)
    wide = tl.load(x + row * hidden + column, inside, 0.0).to(tl.float32)
    # rounded before the weight, as in the plain version
    normed = (wide * tl.rsqrt(tl.sum(wide * wide) / hidden + eps)).to(kind) * scale
    if tl.program_id(1) == 0:
        tl.store(inputs + row * hidden + column, normed, inside)
    score = tl.sum(weights.to(tl.float32) * normed.to(tl.float32)[None, :], 1)
    tl.store(scores + row * count + expert, score, expert < count)


def choose(
    scores: Tensor, block: ExpertBlock, tile: int = 1, counts: Tensor | None = None, marks: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Scores [N, E] float32 -> the chosen experts [N, K] int32 and their weights [N, K] float32, largest first."""
    rows, count = scores.shape
    picks = torch.empty(rows, block.chosen, dtype=torch.int32, device=scores.device)
    gates = torch.empty(rows, block.chosen, device=scores.device)
    _choose[(triton.cdiv(rows, tile),)](
        scores, picks, gates, picks if counts is None else counts, picks if marks is None else marks, rows, count,
        triton.next_power_of_2(count), block.chosen, triton.next_power_of_2(block.chosen), block.renormalised, tile,
        counts is not None, marks is not None, overlaps(), num_warps=1 if tile == 1 else 4, launch_pdl=overlaps(),
    )  # fmt: skip
    return picks, gates


def row_scores(x: Tensor, norm: Tensor, eps: float, block: ExpertBlock) -> tuple[Tensor, Tensor]:
    """Rows [N, H] -> the same after the norm, and their scores [N, E] float32. For few rows."""
    rows, hidden = x.shape
    inputs, scores = torch.empty_like(x), torch.empty(rows, block.count, device=x.device)
    _row_scores[(rows, triton.cdiv(block.count, SHARE))](
        x, norm, block.router, inputs, scores, hidden, triton.next_power_of_2(hidden), block.count, SHARE, eps,
        overlaps(), num_warps=4, launch_pdl=overlaps(),
    )  # fmt: skip
    return inputs, scores


def experts(
    x: Tensor, norm: Tensor, eps: float, block: ExpertBlock, scores: Callable[[Tensor, Tensor], Tensor],
    product: Product = F.grouped_mm,
) -> Tensor:  # fmt: skip
    """x + experts(norm(x)), for a block without shared experts. `scores`: rows, router -> [N, E] float32."""
    every, hidden, inner = block.down.shape
    rows, early, device = x.numel() // hidden, overlaps(), x.device
    x = x.contiguous()
    inputs = rms_norm(x, norm, eps)
    blocks, block_e = triton.cdiv(rows, TILE), triton.next_power_of_2(every)
    counts, offsets = torch.empty((2, blocks, every), dtype=torch.int32, device=device)
    ends = torch.empty(every, dtype=torch.int32, device=device)
    picks, gates = choose(scores(inputs.view(rows, hidden), block.router), block, TILE, counts)
    places = torch.empty_like(picks)
    _offsets[(1,)](
        counts, offsets, ends, blocks, every, block_e, min(BLOCKS, triton.next_power_of_2(blocks)), early,
        num_warps=8, launch_pdl=early,
    )  # fmt: skip
    _place[(blocks,)](
        picks, offsets, places, rows, every, block_e, block.chosen, TILE, early, num_warps=4, launch_pdl=early
    )  # fmt: skip
    spread = torch.empty(rows * block.chosen, hidden, dtype=x.dtype, device=device)
    part = min(1024, triton.next_power_of_2(hidden))
    parts = triton.cdiv(hidden, part)
    _spread[(rows, parts)](inputs, places, spread, hidden, part, block.chosen, early, num_warps=4, launch_pdl=early)
    wide = product(spread, block.gate_up.transpose(1, 2), offs=ends)
    thought = torch.empty(rows * block.chosen, inner, dtype=x.dtype, device=device)
    _gate[(rows * block.chosen,)](
        wide, thought, inner, triton.next_power_of_2(inner), early, num_warps=4, launch_pdl=early
    )
    made, out = product(thought, block.down.transpose(1, 2), offs=ends), torch.empty_like(x)
    _collect[(rows, parts)](
        x, made, places, gates, out, hidden, part, block.chosen, early, num_warps=4, launch_pdl=early
    )  # fmt: skip
    return out
