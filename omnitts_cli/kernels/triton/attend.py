"""Attention for rows that follow a cache: norm, rotate, write and attend, with lengths read on the device.

One row a request (a frame) is one kernel: a program owns a kv head of a request, so nobody else reads
what it writes. Several rows (a prompt) take two: the first writes the cache, the second attends.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels import plain


@triton.jit
def _normed_rotated(base, weight, cos, sin, depth: tl.constexpr, eps: tl.constexpr, kind: tl.constexpr):
    """One head [depth], normed and rotated: each lane also loads its partner of the other half."""
    lane = tl.arange(0, depth)
    half: tl.constexpr = depth // 2
    partner = (lane + half) % depth
    own = tl.load(base + lane).to(tl.float32)
    other = tl.load(base + partner).to(tl.float32)
    scale = tl.rsqrt(tl.sum(own * own) / depth + eps)
    # rounded where the plain twin rounds: after the norm, after the weight, after the rotation
    own = ((own * scale).to(kind) * tl.load(weight + lane)).to(tl.float32)
    other = ((other * scale).to(kind) * tl.load(weight + partner)).to(tl.float32)
    c = tl.load(cos + lane % half)
    s = tl.load(sin + lane % half)
    turned = own * c + tl.where(lane < half, -other, other) * s
    return turned.to(kind).to(tl.float32)


@triton.jit
def _frame(
    qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, out, capacity,
    kv_heads: tl.constexpr, shared: tl.constexpr, depth: tl.constexpr, eps: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    batch, head = tl.program_id(0), tl.program_id(1)
    lane = tl.arange(0, depth)
    heads: tl.constexpr = kv_heads * shared
    kind = out.dtype.element_ty
    base = qkv + batch * (heads + 2 * kv_heads) * depth
    slot = tl.load(slots + batch)
    position = tl.load(positions + batch)
    cos += position * (depth // 2)
    sin += position * (depth // 2)
    store = (slot * kv_heads + head) * capacity
    keys += store * depth
    values += store * depth

    key = _normed_rotated(base + (heads + head) * depth, k_weight, cos, sin, depth, eps, kind)
    value = tl.load(base + (heads + kv_heads + head) * depth + lane)
    tl.store(keys + position * depth + lane, key.to(kind))
    tl.store(values + position * depth + lane, value)
    value = value.to(tl.float32)

    root = 1.0 / tl.sqrt(tl.full((), depth, tl.float32))
    offsets = tl.arange(0, block)
    for one in tl.static_range(shared):
        query = _normed_rotated(base + (head * shared + one) * depth, q_weight, cos, sin, depth, eps, kind) * root
        # the row's own key comes from registers, the earlier ones from the cache
        most = tl.sum(query * key)
        weight = tl.full((), 1.0, tl.float32)
        mixed = value
        for start in tl.range(0, position, block):
            there = start + offsets < position
            where = (start + offsets)[:, None] * depth + lane[None, :]
            seen = tl.load(keys + where, there[:, None], 0.0).to(tl.float32)
            score = tl.where(there, tl.sum(seen * query[None, :], 1), float("-inf"))
            new = tl.maximum(most, tl.max(score))
            chance = tl.exp(score - new)
            keep = tl.exp(most - new)
            seen = tl.load(values + where, there[:, None], 0.0).to(tl.float32)
            mixed = mixed * keep + tl.sum(seen * chance[:, None], 0)
            weight = weight * keep + tl.sum(chance)
            most = new
        tl.store(out + (batch * heads + head * shared + one) * depth + lane, (mixed / weight).to(kind))


@triton.jit
def _write(
    qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, queries, rows, capacity,
    kv_heads: tl.constexpr, heads: tl.constexpr, depth: tl.constexpr, eps: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(0), tl.program_id(1)
    lane = tl.arange(0, depth)
    kind = queries.dtype.element_ty
    base = qkv + (row * (heads + 2 * kv_heads) + part) * depth
    slot = tl.load(slots + row // rows)
    position = tl.load(positions + row)
    cos += position * (depth // 2)
    sin += position * (depth // 2)
    if part < heads:
        query = _normed_rotated(base, q_weight, cos, sin, depth, eps, kind)
        tl.store(queries + (row * heads + part) * depth + lane, query.to(kind))
    elif part < heads + kv_heads:
        where = ((slot * kv_heads + part - heads) * capacity + position) * depth + lane
        key = _normed_rotated(base, k_weight, cos, sin, depth, eps, kind)
        tl.store(keys + where, key.to(kind))
    else:
        where = ((slot * kv_heads + part - heads - kv_heads) * capacity + position) * depth + lane
        tl.store(values + where, tl.load(base + lane))


@triton.jit
def _attend(
    queries, keys, values, slots, positions, out, rows, capacity,
    kv_heads: tl.constexpr, shared: tl.constexpr, depth: tl.constexpr, tile: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    batch, head = tl.program_id(0), tl.program_id(1)
    heads: tl.constexpr = kv_heads * shared
    lane = tl.arange(0, depth)
    index = tl.program_id(2) * tile + tl.arange(0, tile)  # (row, query head of this kv head)
    row, one = index // shared, index % shared
    inside = row < rows
    position = tl.load(positions + batch * rows + row, inside, 0)
    where = ((batch * rows + row) * heads + head * shared + one)[:, None] * depth + lane[None, :]
    query = tl.load(queries + where, inside[:, None], 0.0)
    store = (tl.load(slots + batch) * kv_heads + head) * capacity
    keys += store * depth
    values += store * depth

    root = 1.0 / tl.sqrt(tl.full((), depth, tl.float32))
    offsets = tl.arange(0, block)
    most = tl.full((tile,), float("-inf"), tl.float32)
    weight = tl.zeros((tile,), tl.float32)
    mixed = tl.zeros((tile, depth), tl.float32)
    for start in tl.range(0, tl.max(position) + 1, block):
        at = start + offsets
        near = at[:, None] * depth + lane[None, :]
        held = (at < capacity)[:, None]
        seen = tl.load(keys + near, held, 0.0)
        score = tl.dot(query, tl.trans(seen), input_precision="ieee") * root
        score = tl.where(at[None, :] <= position[:, None], score, float("-inf"))
        new = tl.maximum(most, tl.max(score, 1))
        chance = tl.exp(score - new[:, None])
        keep = tl.exp(most - new)
        seen = tl.load(values + near, held, 0.0)
        mixed = mixed * keep[:, None] + tl.dot(chance.to(seen.dtype), seen, input_precision="ieee")
        weight = weight * keep + tl.sum(chance, 1)
        most = new
    tl.store(out + where, (mixed / weight[:, None]).to(out.dtype.element_ty), inside[:, None])


def attend_cached(
    qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor,
    keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor, width: int,
) -> Tensor:  # fmt: skip
    """`width` is not needed here: how far to read is read from `positions`."""
    kv_heads, capacity, depth = keys.shape[1:]
    if depth & (depth - 1) or depth < 16:
        return plain.attend_cached(qkv, q_weight, k_weight, eps, cos, sin, keys, values, slots, positions, width)
    batch, rows = positions.shape
    heads = qkv.shape[-1] // depth - 2 * kv_heads
    shared = heads // kv_heads
    out = torch.empty((batch, rows, heads * depth), dtype=qkv.dtype, device=qkv.device)
    qkv, positions = qkv.contiguous(), positions.contiguous()
    if rows == 1:
        block = 16 if capacity <= 16 else 64
        _frame[(batch, kv_heads)](
            qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, out, capacity,
            kv_heads, shared, depth, eps, block, num_warps=4,
        )  # fmt: skip
        return out
    queries = torch.empty_like(out)
    _write[(batch * rows, heads + 2 * kv_heads)](
        qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, queries, rows, capacity,
        kv_heads, heads, depth, eps, num_warps=1,
    )  # fmt: skip
    tile = 16
    _attend[(batch, kv_heads, triton.cdiv(rows * shared, tile))](
        queries, keys, values, slots, positions, out, rows, capacity, kv_heads, shared, depth, tile, 32, num_warps=4
    )
    return out
