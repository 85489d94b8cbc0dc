"""What learning does between its products, forwards and backwards: norms, rotations, gates, dropout, adapters.

Each is one pass over its rows each way. Sums are float32, and results are rounded where the plain version rounds. Under
autocast, results that only products read have its type, so that it copies nothing. The backward passes compute again
what they can from inputs that are kept anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.backends.cuda import SDPAParams, can_use_cudnn_attention, can_use_flash_attention

from omnitts_cli.kernels.ops import LearnOps, LowRank, Normed
from omnitts_cli.kernels.triton.draw import _mix
from omnitts_cli.kernels.triton.products import swiglu as gated

NO_CARD = ("cpu", "meta")
"""Where Triton's interpreter and compiler run for tests."""
TOGETHER = 16
"""Rows of a program that sums the gradient of a norm's weight."""
MOST_PAIRS = 3
"""A weight is joined from at most so many layers of the checkpoint: q, k and v."""


def product_type(x: Tensor, *others: Tensor) -> torch.dtype:
    """The type of a tensor that only products of matrices read."""
    where = x.device.type
    if where != "meta" and torch.is_autocast_enabled(where):
        return torch.get_autocast_dtype(where)
    kind = x.dtype
    for one in others:
        kind = torch.promote_types(kind, one.dtype)
    return kind


def wide_product(x: Tensor, y: Tensor) -> Tensor:
    """A product of matrices in float32, the type of what learns."""
    if x.dtype == torch.float32 or x.device.type in NO_CARD:
        return torch.mm(x, y).float()
    return torch.mm(x, y, out_dtype=torch.float32)


# ---- norms


@triton.jit
def _norm_forward(
    product, residual, weight, rows, out, scales,
    width: tl.constexpr, block: tl.constexpr, eps: tl.constexpr, adds: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    column = tl.arange(0, block)
    inside = column < width
    at = row * width + column
    kind = rows.dtype.element_ty
    wide = tl.load(residual + at, inside, 0.0).to(tl.float32)
    if adds:
        wide += tl.load(product + at, inside, 0.0).to(tl.float32)
        tl.store(rows + at, wide.to(kind), inside)
        wide = wide.to(kind).to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide) / width + eps)
    tl.store(scales + row, scale)
    value = (wide * scale).to(kind).to(tl.float32) * tl.load(weight + column, inside, 0.0).to(tl.float32)
    tl.store(out + at, value.to(out.dtype.element_ty), inside)


@triton.jit(do_not_specialize=["count"])
def _norm_backward(
    rows, weight, scales, d_out, d_rows, d_sum, d_product, d_weight, count, width: tl.constexpr, block: tl.constexpr,
    together: tl.constexpr, more: tl.constexpr, halves: tl.constexpr, weighs: tl.constexpr,
):  # fmt: skip
    """`more`: there is a gradient of the rows themselves. `halves`: that of the product has a type of its own."""
    program = tl.program_id(0)
    column = tl.arange(0, block)
    factor = tl.load(weight + column, column < width, 0.0).to(tl.float32)
    total = tl.zeros((block,), tl.float32)
    for index in range(together):
        row = program * together + index
        inside = (column < width) & (row < count)
        at = row * width + column
        scale = tl.load(scales + row, row < count, 0.0)
        unit = tl.load(rows + at, inside, 0.0).to(tl.float32) * scale
        given = tl.load(d_out + at, inside, 0.0).to(tl.float32)
        if weighs:
            total += given * unit
        given *= factor
        found = scale * (given - unit * (tl.sum(given * unit) / width))
        if more:
            found += tl.load(d_rows + at, inside, 0.0).to(tl.float32)
        tl.store(d_sum + at, found.to(d_sum.dtype.element_ty), inside)
        if halves:
            tl.store(d_product + at, found.to(d_product.dtype.element_ty), inside)
    if weighs:
        tl.store(d_weight + program * width + column, total, column < width)


def normed(product: Tensor | None, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The sum of both, its norm, and the scale of each row."""
    residual, width = residual.contiguous(), residual.shape[-1]
    rows, first = residual, residual
    if product is not None:
        first = product.contiguous()
        rows = torch.empty_like(residual, dtype=torch.promote_types(product.dtype, residual.dtype))
    out = torch.empty_like(rows, dtype=product_type(rows, weight))
    count = rows.numel() // width
    scales = torch.empty(count, dtype=torch.float32, device=rows.device)
    _norm_forward[(count,)](
        first, residual, weight, rows, out, scales, width, triton.next_power_of_2(width), eps,
        product is not None, num_warps=4,
    )  # fmt: skip
    return rows, out, scales


def norm_gradients(
    rows: Tensor, weight: Tensor, scales: Tensor, d_out: Tensor, d_rows: Tensor | None, product: torch.dtype,
    weighs: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """Of the rows, of the product in its own type, and of the weight."""
    count, width, together = len(scales), rows.shape[-1], TOGETHER if weighs else 1
    programs, halves = triton.cdiv(count, together), product != rows.dtype
    d_out = d_out.contiguous()
    d_sum = torch.empty_like(rows)
    d_product = torch.empty_like(rows, dtype=product) if halves else d_sum
    parts = torch.empty((programs, width) if weighs else (1,), dtype=torch.float32, device=rows.device)
    _norm_backward[(programs,)](
        rows, weight, scales, d_out, d_out if d_rows is None else d_rows.contiguous(), d_sum, d_product, parts, count,
        width, triton.next_power_of_2(width), together, d_rows is not None, halves, weighs, num_warps=4,
    )  # fmt: skip
    return d_sum, d_product, parts.sum(0).to(weight.dtype) if weighs else None


class Norm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        rows, out, scales = normed(None, x, weight, eps)
        ctx.save_for_backward(rows, weight, scales)
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        rows, weight, scales = ctx.saved_tensors
        d_x, _, d_weight = norm_gradients(rows, weight, scales, d_out, None, rows.dtype, ctx.needs_input_grad[1])
        return d_x, d_weight, None


class AddNorm(Function):
    @staticmethod
    def forward(ctx: Any, product: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        rows, out, scales = normed(product, residual, weight, eps)
        ctx.save_for_backward(rows, weight, scales)
        ctx.set_materialize_grads(False)
        ctx.kinds = product.dtype, residual.dtype
        return rows, out

    @staticmethod
    def backward(ctx: Any, d_rows: Tensor | None, d_out: Tensor | None) -> Any:
        product, residual = ctx.kinds
        if d_out is None:  # nothing reads the norm
            found = (None, None) if d_rows is None else (d_rows.to(product), d_rows.to(residual))
            return *found, None, None
        rows, weight, scales = ctx.saved_tensors
        weighs = ctx.needs_input_grad[2]
        d_sum, d_product, d_weight = norm_gradients(rows, weight, scales, d_out, d_rows, product, weighs)
        return d_product, d_sum.to(residual), d_weight, None


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    made: Tensor = Norm.apply(x, weight, eps)
    return made


def add_norm(product: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Normed:
    rows, value = AddNorm.apply(product, residual, weight, eps)
    return Normed(rows, weight, eps, value)


# ---- gates


@triton.jit
def _swiglu_backward(both, d_out, d_both, inner: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.program_id(1) * block + tl.arange(0, block)
    inside = lane < inner
    here = row * 2 * inner + lane
    gate = tl.load(both + here, inside, 0.0).to(tl.float32)
    up = tl.load(both + here + inner, inside, 0.0).to(tl.float32)
    given = tl.load(d_out + row * inner + lane, inside, 0.0).to(tl.float32)
    kind = d_both.dtype.element_ty
    share = tl.sigmoid(gate)
    opened = (gate * share).to(kind).to(tl.float32)
    tl.store(d_both + here, (given * up * share * (1 + gate * (1 - share))).to(kind), inside)
    tl.store(d_both + here + inner, (given * opened).to(kind), inside)


class SwiGLU(Function):
    @staticmethod
    def forward(ctx: Any, both: Tensor) -> Tensor:
        both = both.contiguous()
        ctx.save_for_backward(both)
        return gated(both)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Tensor:
        (both,) = ctx.saved_tensors
        d_both, inner = torch.empty_like(both), both.shape[-1] // 2
        _swiglu_backward[(both.numel() // (2 * inner), triton.cdiv(inner, 1024))](
            both, d_out.contiguous(), d_both, inner, 1024, num_warps=4
        )
        return d_both


def swiglu(gate_up: Tensor) -> Tensor:
    made: Tensor = SwiGLU.apply(gate_up)
    return made


# ---- heads


@triton.jit
def _turn(
    x, weight, out, cos, sin, lane,
    heads: tl.constexpr, half: tl.constexpr, block_heads: tl.constexpr, eps: tl.constexpr,
):  # fmt: skip
    """Norm and rotation of some heads of a row. cos and sin [block_half]; `lane`: places in half a head."""
    head = tl.arange(0, block_heads)
    inside = (head[:, None] < heads) & (lane[None, :] < half)
    at = head[:, None] * (2 * half) + lane[None, :]
    kind = x.dtype.element_ty
    low = tl.load(x + at, inside, 0.0).to(tl.float32)
    high = tl.load(x + at + half, inside, 0.0).to(tl.float32)
    scale = tl.rsqrt((tl.sum(low * low, 1) + tl.sum(high * high, 1)) / (2 * half) + eps)[:, None]
    first, second = tl.load(weight + lane, lane < half, 0.0), tl.load(weight + half + lane, lane < half, 0.0)
    # rounded twice, as in the plain version
    low = (low * scale).to(kind).to(tl.float32) * first.to(tl.float32)[None, :]
    high = (high * scale).to(kind).to(tl.float32) * second.to(tl.float32)[None, :]
    low, high = low.to(first.dtype).to(tl.float32), high.to(first.dtype).to(tl.float32)
    to = out.dtype.element_ty
    tl.store(out + at, (low * cos[None, :] - high * sin[None, :]).to(to), inside)
    tl.store(out + at + half, (high * cos[None, :] + low * sin[None, :]).to(to), inside)


@triton.jit
def _heads_forward(
    qkv, q_weight, k_weight, cos, sin, q, k, v, positions,
    heads: tl.constexpr, kv_heads: tl.constexpr, half: tl.constexpr, block_heads: tl.constexpr,
    block_kv: tl.constexpr, block_half: tl.constexpr, eps: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    lane = tl.arange(0, block_half)
    turn = (row % positions) * half + lane
    c, s = tl.load(cos + turn, lane < half, 0.0), tl.load(sin + turn, lane < half, 0.0)
    x = qkv + row * ((heads + 2 * kv_heads) * 2 * half)
    _turn(x, q_weight, q + row * (heads * 2 * half), c, s, lane, heads, half, block_heads, eps)
    x += heads * 2 * half
    _turn(x, k_weight, k + row * (kv_heads * 2 * half), c, s, lane, kv_heads, half, block_kv, eps)
    x += kv_heads * 2 * half
    head = tl.arange(0, block_kv)
    inside = (head[:, None] < kv_heads) & (lane[None, :] < half)
    at = head[:, None] * (2 * half) + lane[None, :]
    out = v + row * (kv_heads * 2 * half)
    tl.store(out + at, tl.load(x + at, inside, 0.0), inside)
    tl.store(out + at + half, tl.load(x + at + half, inside, 0.0), inside)


@triton.jit
def _turn_back(
    x, weight, given, stride, d_x, d_weight, cos, sin, lane,
    heads: tl.constexpr, half: tl.constexpr, block_heads: tl.constexpr, eps: tl.constexpr, weighs: tl.constexpr,
):  # fmt: skip
    """The gradients of `_turn`; `given`: those of its results, whose heads lie `stride` apart."""
    head = tl.arange(0, block_heads)
    inside = (head[:, None] < heads) & (lane[None, :] < half)
    at = head[:, None] * (2 * half) + lane[None, :]
    low = tl.load(x + at, inside, 0.0).to(tl.float32)
    high = tl.load(x + at + half, inside, 0.0).to(tl.float32)
    scale = tl.rsqrt((tl.sum(low * low, 1) + tl.sum(high * high, 1)) / (2 * half) + eps)[:, None]
    low *= scale
    high *= scale
    there = head[:, None] * stride + lane[None, :]
    one = tl.load(given + there, inside, 0.0).to(tl.float32)
    two = tl.load(given + there + half, inside, 0.0).to(tl.float32)
    d_low = one * cos[None, :] + two * sin[None, :]
    d_high = two * cos[None, :] - one * sin[None, :]
    if weighs:
        tl.store(d_weight + lane, tl.sum(d_low * low, 0), lane < half)
        tl.store(d_weight + half + lane, tl.sum(d_high * high, 0), lane < half)
    d_low *= tl.load(weight + lane, lane < half, 0.0).to(tl.float32)[None, :]
    d_high *= tl.load(weight + half + lane, lane < half, 0.0).to(tl.float32)[None, :]
    along = ((tl.sum(d_low * low, 1) + tl.sum(d_high * high, 1)) / (2 * half))[:, None]
    to = d_x.dtype.element_ty
    tl.store(d_x + at, (scale * (d_low - low * along)).to(to), inside)
    tl.store(d_x + at + half, (scale * (d_high - high * along)).to(to), inside)


@triton.jit
def _heads_backward(
    qkv, q_weight, k_weight, cos, sin, d_q, d_k, d_v, d_qkv, d_weights, positions,
    q_batch, q_row, q_head, k_batch, k_row, k_head, v_batch, v_row, v_head,
    heads: tl.constexpr, kv_heads: tl.constexpr, half: tl.constexpr, block_heads: tl.constexpr,
    block_kv: tl.constexpr, block_half: tl.constexpr, eps: tl.constexpr, weighs: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    batch, position = row // positions, row % positions
    lane = tl.arange(0, block_half)
    turn = position * half + lane
    c, s = tl.load(cos + turn, lane < half, 0.0), tl.load(sin + turn, lane < half, 0.0)
    first = row * ((heads + 2 * kv_heads) * 2 * half)
    x, d_x = qkv + first, d_qkv + first
    sums = d_weights + row * (4 * half)
    _turn_back(
        x, q_weight, d_q + batch * q_batch + position * q_row, q_head, d_x, sums, c, s, lane,
        heads, half, block_heads, eps, weighs,
    )  # fmt: skip
    x += heads * 2 * half
    d_x += heads * 2 * half
    _turn_back(
        x, k_weight, d_k + batch * k_batch + position * k_row, k_head, d_x, sums + 2 * half, c, s, lane,
        kv_heads, half, block_kv, eps, weighs,
    )  # fmt: skip
    d_x += kv_heads * 2 * half
    head = tl.arange(0, block_kv)
    inside = (head[:, None] < kv_heads) & (lane[None, :] < half)
    at = head[:, None] * (2 * half) + lane[None, :]
    there = d_v + batch * v_batch + position * v_row + head[:, None] * v_head + lane[None, :]
    to = d_qkv.dtype.element_ty
    tl.store(d_x + at, tl.load(there, inside, 0.0).to(to), inside)
    tl.store(d_x + at + half, tl.load(there + half, inside, 0.0).to(to), inside)


def _blocks(heads: int, kv_heads: int, half: int) -> list[int]:
    """The numbers of a row's heads, and the powers of two above them."""
    return [heads, kv_heads, half, *(triton.next_power_of_2(one) for one in (heads, kv_heads, half))]


class Heads(Function):
    """A projection [B, P, (heads + 2 kv) D] -> queries, keys, values [B, P, n, D]."""

    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor, kv_heads: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        qkv, depth = qkv.contiguous(), q_weight.shape[0]
        batch, positions, wide = qkv.shape
        heads, kind = wide // depth - 2 * kv_heads, product_type(qkv, q_weight)
        q = torch.empty((batch, positions, heads, depth), dtype=kind, device=qkv.device)
        k, v = (torch.empty((batch, positions, kv_heads, depth), dtype=kind, device=qkv.device) for _ in range(2))
        _heads_forward[(batch * positions,)](
            qkv, q_weight, k_weight, cos, sin, q, k, v, positions, *_blocks(heads, kv_heads, depth // 2), eps,
            num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(qkv, q_weight, k_weight, cos, sin)
        ctx.eps, ctx.heads = eps, (heads, kv_heads)
        return q, k, v

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> Any:
        qkv, q_weight, k_weight, cos, sin = ctx.saved_tensors
        (batch, positions, _), (heads, kv_heads) = qkv.shape, ctx.heads
        rows, half, weighs = batch * positions, q_weight.shape[0] // 2, any(ctx.needs_input_grad[1:3])
        given = tuple(one if one.stride(-1) == 1 else one.contiguous() for one in given)
        strides = [size for one in given for size in one.stride()[:3]]
        d_qkv = torch.empty_like(qkv)
        parts = torch.empty((rows, 2, 2 * half) if weighs else (1,), dtype=torch.float32, device=qkv.device)
        _heads_backward[(rows,)](
            qkv, q_weight, k_weight, cos, sin, *given, d_qkv, parts, positions, *strides,
            *_blocks(heads, kv_heads, half), ctx.eps, weighs, num_warps=4,
        )  # fmt: skip
        d_q_weight, d_k_weight = parts.sum(0).to(q_weight.dtype) if weighs else (None, None)
        return d_qkv, d_q_weight, d_k_weight, None, None, None, None


@lru_cache(maxsize=256)
def shares_keys(heads: int, kv_heads: int, sizes: tuple[int, int, int], kind: torch.dtype, where: torch.device) -> bool:
    """Whether flash or cuDNN attention of torch reads keys that several heads of queries share, without copies.
    `sizes`: batch, positions, depth."""
    if where.type in NO_CARD:
        return False
    batch, positions, depth = sizes
    q, k = (
        torch.empty((batch, positions, n, depth), dtype=kind, device=where).transpose(1, 2).requires_grad_()
        for n in (heads, kv_heads)
    )
    params = SDPAParams(q, k, k, None, 0.0, True, True)
    return bool(can_use_flash_attention(params) or can_use_cudnn_attention(params))


def attend(
    qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor, kv_heads: int
) -> Tensor:
    q, k, v = (one.transpose(1, 2) for one in Heads.apply(qkv, q_weight, k_weight, eps, cos, sin, kv_heads))
    batch, heads, positions, depth = q.shape
    shares = shares_keys(heads, kv_heads, (batch, positions, depth), q.dtype, q.device)
    if not shares:
        k, v = (one.repeat_interleave(heads // kv_heads, 1) for one in (k, v))
    made = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shares)
    return made.transpose(1, 2).flatten(2)


# ---- adapters


@triton.jit
def _set_block(pair, scale, begin, end, at, across, row, column, out, scaled):
    """Adds a pair's matrix [end - begin, across], whose first number belongs at (begin, at)."""
    inside = (row >= begin) & (row < end) & (column >= at) & (column < at + across)
    value = tl.load(pair + (row - begin) * across + column - at, inside, 0.0).to(tl.float32)
    return out + value, scaled + scale * value


SMALL = [f"{one}_{n}" for n in range(MOST_PAIRS) for one in ("scale", "begin", "end", "at", "across")]


@triton.jit(do_not_specialize=["rows", "columns", *SMALL])
def _place(
    pair_0, scale_0, begin_0, end_0, at_0, across_0, pair_1, scale_1, begin_1, end_1, at_1, across_1,
    pair_2, scale_2, begin_2, end_2, at_2, across_2, out, scaled, rows, columns,
    block_rows: tl.constexpr, block_columns: tl.constexpr,
):  # fmt: skip
    """The matrices of up to three pairs as blocks of one [rows, columns]; `scaled`: each times its scale."""
    row = (tl.program_id(0) * block_rows + tl.arange(0, block_rows))[:, None]
    column = (tl.program_id(1) * block_columns + tl.arange(0, block_columns))[None, :]
    made = tl.zeros((block_rows, block_columns), tl.float32)
    other = tl.zeros((block_rows, block_columns), tl.float32)
    made, other = _set_block(pair_0, scale_0, begin_0, end_0, at_0, across_0, row, column, made, other)
    made, other = _set_block(pair_1, scale_1, begin_1, end_1, at_1, across_1, row, column, made, other)
    made, other = _set_block(pair_2, scale_2, begin_2, end_2, at_2, across_2, row, column, made, other)
    inside = (row < rows) & (column < columns)
    tl.store(out + row * columns + column, made.to(out.dtype.element_ty), inside)
    tl.store(scaled + row * columns + column, other.to(scaled.dtype.element_ty), inside)


Block = tuple[Tensor, float, int, int]
"""A matrix, its scale, and the row and column of its first number."""


def placed(blocks: Sequence[Block], rows: int, columns: int, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """The blocks in one matrix that is 0 elsewhere, and the same matrix with each block times its scale."""
    device = blocks[0][0].device
    out, scaled = (torch.empty((rows, columns), dtype=kind, device=device) for _ in range(2))
    given: list[Any] = []
    for block, scale, row, column in blocks:
        given += [block, scale, row, row + block.shape[0], column, block.shape[1]]
    given += [blocks[0][0], 0.0, 0, 0, 0, 0] * (MOST_PAIRS - len(blocks))
    wide = min(128, triton.next_power_of_2(columns))
    tall = 4096 // wide
    _place[(triton.cdiv(rows, tall), triton.cdiv(columns, wide))](
        *given, out, scaled, rows, columns, tall, wide, num_warps=4
    )
    return out, scaled


@triton.jit
def _left(value, at, seed, share):
    """Numbers of a tensor after dropout; their places and the seed decide which become 0."""
    bits = _mix(_mix(at.to(tl.uint32)) ^ tl.load(seed).to(tl.uint32))
    return tl.where((bits >> 8).to(tl.float32) * (1.0 / 16777216.0) < share, 0.0, value / (1.0 - share))


@triton.jit(do_not_specialize=["count", "share"])
def _drop(x, out, seed, count, share, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < count
    value = tl.load(x + at, inside, 0.0).to(tl.float32)
    tl.store(out + at, _left(value, at, seed, share).to(out.dtype.element_ty), inside)


@triton.jit(do_not_specialize=["count", "share"])
def _drop_backward(
    narrow, matrix, total, seed, count, share, rank: tl.constexpr, width: tl.constexpr,
    block_m: tl.constexpr, block_n: tl.constexpr, block_r: tl.constexpr,
):  # fmt: skip
    """Adds the product of narrow [count, rank] and a matrix [rank, width], where nothing was hidden, to a total."""
    row = tl.program_id(0) * block_m + tl.arange(0, block_m)
    column = tl.program_id(1) * block_n + tl.arange(0, block_n)
    lane = tl.arange(0, block_r)
    known = lane < rank
    left = tl.load(narrow + row[:, None] * rank + lane[None, :], (row < count)[:, None] & known[None, :], 0.0)
    right = tl.load(matrix + lane[:, None] * width + column[None, :], known[:, None] & (column < width)[None, :], 0.0)
    made = tl.dot(left, right, input_precision="ieee")
    at = row[:, None] * width + column[None, :]
    inside = (row < count)[:, None] & (column < width)[None, :]
    before = tl.load(total + at, inside, 0.0).to(tl.float32)
    tl.store(total + at, (before + _left(made, at, seed, share)).to(total.dtype.element_ty), inside)


def dropped(x: Tensor, seed: Tensor | None, share: float) -> Tensor:
    """The numbers of x that a seed [1] leaves. One seed hides the same places each time."""
    if seed is None:
        return x
    out, count = torch.empty_like(x), x.numel()
    _drop[(triton.cdiv(count, 1024),)](x, out, seed, count, share, 1024, num_warps=4)
    return out


def add_dropped(total: Tensor, narrow: Tensor, matrix: Tensor, seed: Tensor | None, share: float) -> Tensor:
    """Adds narrow x matrix to `total`, in place, without the places that the seed hides."""
    if seed is None:
        return total.addmm_(narrow, matrix)
    (count, width), rank = total.shape, len(matrix)
    _drop_backward[(triton.cdiv(count, 64), triton.cdiv(width, 128))](
        narrow, matrix, total, seed, count, share, rank, width, 64, 128, max(16, triton.next_power_of_2(rank)),
        num_warps=4,
    )  # fmt: skip
    return total


class Adapted(Function):
    """A product with a frozen weight, plus the pairs beside it. `spans`: scale, first row and end of each pair."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, seed: Tensor | None, share: float,
        spans: Sequence[tuple[float, int, int]], *pairs: Tensor,
    ) -> Tensor:  # fmt: skip
        kind = product_type(x, weight)
        rows, weight = x.flatten(0, -2).to(kind).contiguous(), weight.to(kind)
        count = len(spans)
        above, below, at = list[Block](), list[Block](), 0
        for (scale, begin, _), a, b in zip(spans, pairs[:count], pairs[count:], strict=True):
            above.append((a, scale, at, 0))
            below.append((b, scale, begin, at))
            at += len(a)
        a, a_scaled = placed(above, at, rows.shape[1], kind)
        b, b_scaled = placed(below, len(weight), at, kind)
        seen = dropped(rows, seed, share)
        inner = seen @ a_scaled.T
        out = F.linear(rows, weight, None if bias is None else bias.to(kind)).addmm_(inner, b.T)
        ctx.save_for_backward(seen, weight, seed, a, b_scaled, inner)
        ctx.share, ctx.spans, ctx.ranks, ctx.kind = share, spans, [len(one) for one in pairs[:count]], x.dtype
        return out.view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        seen, weight, seed, a, b_scaled, inner = ctx.saved_tensors
        given = d_out.flatten(0, -2).to(seen.dtype).contiguous()
        d_inner = given @ b_scaled
        d_a = wide_product(d_inner.T, seen).split(ctx.ranks)
        whole = wide_product(given.T, inner).split(ctx.ranks, 1)
        d_b = [one[begin:end] for (_, begin, end), one in zip(ctx.spans, whole, strict=True)]
        d_x = None
        if ctx.needs_input_grad[0]:
            whole = add_dropped(given @ weight, d_inner, a, seed, ctx.share)
            d_x = whole.to(ctx.kind).view(*d_out.shape[:-1], -1)
        return d_x, None, None, None, None, None, *d_a, *d_b


def low_rank(x: Tensor, weight: Tensor, bias: Tensor | None, pairs: Sequence[LowRank], hidden: float) -> Tensor:
    seed = torch.randint(0, 1 << 31, (1,), device=x.device) if hidden else None
    spans = [(pair.scale, pair.begin, pair.end) for pair in pairs]
    matrices = [*(pair.a for pair in pairs), *(pair.b for pair in pairs)]
    made: Tensor = Adapted.apply(x, weight, bias, seed, hidden, spans, *matrices)
    return made


LEARN = LearnOps(norm=norm, add_norm=add_norm, swiglu=swiglu, attend=attend, low_rank=low_rank)
