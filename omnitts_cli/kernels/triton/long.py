"""Operations for contexts of thousands of rows: split attention for steps, flash attention for prompts, logits.

A single program per kv head would be slow for a long context, so a step splits it among several programs and merges
their partial softmax. A prompt's rows are written to the cache first, then read by the library's flash attention.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from omnitts_cli.kernels.ops import ExpertBlock
from omnitts_cli.kernels.triton import grouped, mixture
from omnitts_cli.kernels.triton.attention import _heads, _normed_rotated, _write
from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait

PROGRAMS = 256
"""The number of programs for a step's attention, over all requests and heads."""
MOST_SPLITS = 32
BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Without cuDNN, which builds a plan for every new length."""


@triton.jit
def _split(  # noqa: PLR0915
    qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, mixed_out, most_out, weight_out, capacity,
    kv_heads: tl.constexpr, shared: tl.constexpr, depth: tl.constexpr, eps: tl.constexpr, splits: tl.constexpr,
    tile: tl.constexpr, block: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """One row of a request attends to a share of its positions; stores unscaled values, largest score and sum of
    weights."""
    batch, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    lane = tl.arange(0, depth)
    offsets = tl.arange(0, block)
    announce(early)
    wait(early)
    half: tl.constexpr = depth // 2
    heads: tl.constexpr = kv_heads * shared
    kind = keys.dtype.element_ty
    base = qkv + batch * (heads + 2 * kv_heads) * depth
    slot = tl.load(slots + batch)
    position = tl.load(positions + batch)
    cos += position * half
    sin += position * half
    store = (slot * kv_heads + head) * capacity
    keys += store * depth
    values += store * depth

    one = tl.arange(0, tile)
    inside = (one < shared)[:, None]
    query = _heads(base + (head * shared + one)[:, None] * depth, q_weight, cos, sin, inside, depth, eps, kind)
    root = 1.0 / tl.sqrt(tl.full((), depth, tl.float32))

    # its own position comes from registers in the first part, so the store is not read back
    key = _normed_rotated(base + (heads + head) * depth, k_weight, cos, sin, depth, eps, kind)
    value = tl.load(base + (heads + kv_heads + head) * depth + lane)
    mine = lane + part * depth < depth
    tl.store(keys + position * depth + lane, key.to(kind), mine)
    tl.store(values + position * depth + lane, value, mine)
    own = tl.sum(query.to(tl.float32) * key[None, :], 1) * root
    most = tl.where(one + part * tile < tile, own, float("-inf"))
    weight = tl.where(one + part * tile < tile, 1.0, 0.0)
    mixed = tl.zeros((tile, depth), tl.float32) + tl.where(mine, value.to(tl.float32), 0.0)[None, :]

    share = tl.cdiv(tl.cdiv(position, splits), block) * block
    begin = part * share
    end = tl.minimum(begin + share, position)
    for start in tl.range(begin, end, block):
        at = start + offsets
        near = at[:, None] * depth + lane[None, :]
        held = (at < end)[:, None]
        seen = tl.load(keys + near, held, 0.0)
        score = tl.dot(query, tl.trans(seen), input_precision="ieee") * root
        score = tl.where((at < end)[None, :], score, float("-inf"))
        new = tl.maximum(most, tl.max(score, 1))
        chance = tl.exp(score - new[:, None])
        keep = tl.exp(most - new)
        seen = tl.load(values + near, held, 0.0)
        mixed = mixed * keep[:, None] + tl.dot(chance.to(kind), seen, input_precision="ieee")
        weight = weight * keep + tl.sum(chance, 1)
        most = new
    row = (part * tl.num_programs(0) + batch) * heads + head * shared + one
    tl.store(mixed_out + row[:, None] * depth + lane[None, :], mixed, inside)
    tl.store(most_out + row, most, one < shared)
    tl.store(weight_out + row, weight, one < shared)


@triton.jit
def _join(
    mixed, most, weight, out, rows, depth: tl.constexpr, splits: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """Merges the parts of one head of one row into out [depth]."""
    row = tl.program_id(0)
    part = tl.arange(0, splits)
    lane = tl.arange(0, depth)
    announce(early)
    wait(early)
    top = tl.load(most + part * rows + row)
    scale = tl.exp(top - tl.max(top, 0))
    total = tl.sum(tl.load(weight + part * rows + row) * scale, 0)
    values = tl.load(mixed + (part * rows + row)[:, None] * depth + lane[None, :])
    tl.store(out + row * depth + lane, (tl.sum(values * scale[:, None], 0) / total).to(out.dtype.element_ty))


def splits_of(batch: int, kv_heads: int) -> int:
    """The number of programs that share the context of one kv head, a power of two."""
    return min(MOST_SPLITS, 1 << max(PROGRAMS // (batch * kv_heads), 1).bit_length() - 1)


def attend_split(
    qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor,
    keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor, width: int,
) -> Tensor:  # fmt: skip
    """One position of each request. `width` is not used."""
    kv_heads, capacity, depth = keys.shape[1:]
    batch, heads = positions.shape[0], qkv.shape[-1] // depth - 2 * kv_heads
    splits = splits_of(batch, kv_heads)
    qkv, positions = qkv.contiguous(), positions.contiguous()
    out = torch.empty((batch, 1, heads * depth), dtype=qkv.dtype, device=qkv.device)
    mixed = torch.empty((splits, batch * heads, depth), device=qkv.device)
    most, weight = torch.empty((2, splits, batch * heads), device=qkv.device)
    _split[(batch, kv_heads, splits)](
        qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, mixed, most, weight, capacity,
        kv_heads, heads // kv_heads, depth, eps, splits, 16, 64, overlaps(), num_warps=4, launch_pdl=overlaps(),
    )  # fmt: skip
    _join[(batch * heads,)](
        mixed, most, weight, out, batch * heads, depth, splits, overlaps(), num_warps=1, launch_pdl=overlaps()
    )
    return out


def attend_long_prompt(
    qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor,
    keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor, width: int,
) -> Tensor:  # fmt: skip
    """Rows [1, P] of one prompt, of which the last is at `width` - 1."""
    kv_heads, capacity, depth = keys.shape[1:]
    rows = positions.shape[1]
    heads = qkv.shape[-1] // depth - 2 * kv_heads
    qkv = qkv.contiguous()
    queries = torch.empty((1, rows, heads * depth), dtype=qkv.dtype, device=qkv.device)
    group = min(kv_heads & -kv_heads, heads & -heads, 8)
    _write[(rows, (heads + 2 * kv_heads) // group)](
        qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, queries, rows, capacity,
        kv_heads, heads, depth, eps, group, overlaps(), num_warps=4 if group == 8 else 1, launch_pdl=overlaps(),
    )  # fmt: skip
    query = queries.view(1, rows, heads, depth).transpose(1, 2)
    key, value = (held[:, :, :width].index_select(0, slots) for held in (keys, values))
    with sdpa_kernel(BACKENDS):
        if rows == width:
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        else:  # a later part of a prompt: the mask ends at the lower right
            key, value = (held.repeat_interleave(heads // kv_heads, 1) for held in (key, value))
            out = F.scaled_dot_product_attention(query, key, value, attn_mask=causal_lower_right(rows, width))
    return out.transpose(1, 2).flatten(2)


# ---- each as `Ops.experts`; kernels/choose.py says when which one runs


def grouped_experts(x: Tensor, norm: Tensor, eps: float, block: ExpertBlock) -> Tensor:
    """The library's grouped products, for long prompts."""
    return grouped.experts(x, norm, eps, block, scores)


def few_experts(x: Tensor, norm: Tensor, eps: float, block: ExpertBlock) -> Tensor:
    return mixture.few(x, norm, eps, block, route)


def experts_together(x: Tensor, norm: Tensor, eps: float, block: ExpertBlock) -> Tensor:
    return mixture.together(x, norm, eps, block, route)


def route(x: Tensor, norm: Tensor, eps: float, block: ExpertBlock) -> mixture.Routed:
    """Scores by several programs per row: with one, reading the router of a large model would take longer than the
    experts."""
    rows = x.view(-1, x.shape[-1])
    inputs, made = grouped.row_scores(rows, norm, eps, block)
    marks = torch.empty(block.count, len(rows), dtype=torch.int32, device=x.device)
    picks, gates = grouped.choose(made, block, marks=marks)
    return inputs, gates, picks, marks


def scores(hidden: Tensor, head: Tensor) -> Tensor:
    """Sums stay in float32: no copy of the head, and no rounding of the logits."""
    if hidden.dtype == torch.float32:
        return F.linear(hidden, head)
    return torch.mm(hidden, head.T, out_dtype=torch.float32)
