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
from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait


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
def _online(query, keys, values, position, capacity, depth: tl.constexpr, tile: tl.constexpr, block: tl.constexpr):
    """Softmax attention of `tile` queries over positions 0..position (one each), a block of keys at a time."""
    lane = tl.arange(0, depth)
    offsets = tl.arange(0, block)
    root = 1.0 / tl.sqrt(tl.full((), depth, tl.float32))
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
    return mixed / weight[:, None]


@triton.jit
def _frame(
    qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, out, capacity,
    kv_heads: tl.constexpr, shared: tl.constexpr, depth: tl.constexpr, eps: tl.constexpr,
    tile: tl.constexpr, block: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    batch, head = tl.program_id(0), tl.program_id(1)
    lane = tl.arange(0, depth)
    announce(early)
    wait(early)
    half: tl.constexpr = depth // 2
    partner = (lane + half) % depth
    heads: tl.constexpr = kv_heads * shared
    kind = out.dtype.element_ty
    base = qkv + batch * (heads + 2 * kv_heads) * depth
    slot = tl.load(slots + batch)
    position = tl.load(positions + batch)
    cos += position * half
    sin += position * half
    store = (slot * kv_heads + head) * capacity
    keys += store * depth
    values += store * depth

    key = _normed_rotated(base + (heads + head) * depth, k_weight, cos, sin, depth, eps, kind)
    tl.store(keys + position * depth + lane, key.to(kind))
    tl.store(values + position * depth + lane, tl.load(base + (heads + kv_heads + head) * depth + lane))

    one = tl.arange(0, tile)
    inside = (one < shared)[:, None]
    start = (head * shared + one)[:, None] * depth
    own = tl.load(base + start + lane[None, :], inside, 0.0).to(tl.float32)
    other = tl.load(base + start + partner[None, :], inside, 0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(own * own, 1) / depth + eps)[:, None]
    own = ((own * scale).to(kind) * tl.load(q_weight + lane)[None, :]).to(tl.float32)
    other = ((other * scale).to(kind) * tl.load(q_weight + partner)[None, :]).to(tl.float32)
    c = tl.load(cos + lane % half)[None, :]
    s = tl.load(sin + lane % half)[None, :]
    query = (own * c + tl.where(lane[None, :] < half, -other, other) * s).to(kind)

    tl.debug_barrier()  # the key and value written above are read below, by other threads of this program
    seen = tl.full((tile,), 0, tl.int64) + position
    mixed = _online(query, keys, values, seen, capacity, depth, tile, block)
    where = (batch * heads + head * shared + one)[:, None] * depth + lane[None, :]
    tl.store(out + where, mixed.to(kind), inside)


@triton.jit
def _write(
    qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, queries, rows, capacity,
    kv_heads: tl.constexpr, heads: tl.constexpr, depth: tl.constexpr, eps: tl.constexpr,
    early: tl.constexpr,
):  # fmt: skip
    announce(early)
    wait(early)
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
    early: tl.constexpr,
):  # fmt: skip
    announce(early)
    wait(early)
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
    mixed = _online(query, keys, values, position, capacity, depth, tile, block)
    tl.store(out + where, mixed.to(out.dtype.element_ty), inside[:, None])


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
    tile = 16
    if rows == 1 and shared <= tile:
        block, warps = (16, 2) if capacity <= 16 else (64, 4)
        _frame[(batch, kv_heads)](
            qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, out, capacity,
            kv_heads, shared, depth, eps, tile, block, overlaps(), num_warps=warps, launch_pdl=overlaps(),
        )  # fmt: skip
        return out
    queries = torch.empty_like(out)
    _write[(batch * rows, heads + 2 * kv_heads)](
        qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, queries, rows, capacity,
        kv_heads, heads, depth, eps, overlaps(), num_warps=1, launch_pdl=overlaps(),
    )  # fmt: skip
    _attend[(batch, kv_heads, triton.cdiv(rows * shared, tile))](
        queries, keys, values, slots, positions, out, rows, capacity,
        kv_heads, shared, depth, tile, 32, overlaps(), num_warps=4, launch_pdl=overlaps(),
    )  # fmt: skip
    return out
