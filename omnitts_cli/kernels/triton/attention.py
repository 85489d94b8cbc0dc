"""Attention for rows that follow a cache: norm, rotate, write and attend, with lengths read on the device.

One or two rows per request (a frame) take one kernel: each program owns a kv head of a request, so no other program
reads what it writes. More rows (a prompt) take two kernels: the first writes the cache, the second attends.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait

TILE = 16
"""Query heads, of one or several rows, that are multiplied together."""


@triton.jit
def _normed_rotated(base, weight, cos, sin, depth: tl.constexpr, eps: tl.constexpr, kind: tl.constexpr):
    """One head [depth], normed and rotated. Each lane also loads its partner in the other half."""
    lane = tl.arange(0, depth)
    half: tl.constexpr = depth // 2
    partner = (lane + half) % depth
    own = tl.load(base + lane).to(tl.float32)
    other = tl.load(base + partner).to(tl.float32)
    scale = tl.rsqrt(tl.sum(own * own) / depth + eps)
    # rounded where the plain version rounds: after the norm, after the weight, after the rotation
    own = ((own * scale).to(kind) * tl.load(weight + lane)).to(tl.float32)
    other = ((other * scale).to(kind) * tl.load(weight + partner)).to(tl.float32)
    c = tl.load(cos + lane % half)
    s = tl.load(sin + lane % half)
    turned = own * c + tl.where(lane < half, -other, other) * s
    return turned.to(kind).to(tl.float32)


@triton.jit
def _heads(start, weight, cos, sin, inside, depth: tl.constexpr, eps: tl.constexpr, kind: tl.constexpr):
    """Heads that begin at `start` [count, 1], normed and rotated: [count, depth].

    `cos` and `sin` point to the position of all of them, or [count, 1] to that of each.
    """
    lane = tl.arange(0, depth)
    half: tl.constexpr = depth // 2
    partner = (lane + half) % depth
    own = tl.load(start + lane[None, :], inside, 0.0).to(tl.float32)
    other = tl.load(start + partner[None, :], inside, 0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(own * own, 1) / depth + eps)[:, None]
    own = ((own * scale).to(kind) * tl.load(weight + lane)[None, :]).to(tl.float32)
    other = ((other * scale).to(kind) * tl.load(weight + partner)[None, :]).to(tl.float32)
    c = tl.load(cos + (lane % half)[None, :])
    s = tl.load(sin + (lane % half)[None, :])
    return (own * c + tl.where(lane[None, :] < half, -other, other) * s).to(kind)


@triton.jit
def _online(query, keys, values, ends, most, weight, mixed, depth: tl.constexpr, block: tl.constexpr):
    """Softmax attention of queries [tile, depth] to the positions before `ends` [tile], a block of keys at a time.

    `most`, `weight` and `mixed` are the running softmax of earlier positions: largest score, sum, weighted values.
    """
    lane = tl.arange(0, depth)
    offsets = tl.arange(0, block)
    root = 1.0 / tl.sqrt(tl.full((), depth, tl.float32))
    end = tl.max(ends)
    for start in tl.range(0, end, block):
        at = start + offsets
        near = at[:, None] * depth + lane[None, :]
        held = (at < end)[:, None]
        seen = tl.load(keys + near, held, 0.0)
        score = tl.dot(query, tl.trans(seen), input_precision="ieee") * root
        score = tl.where(at[None, :] < ends[:, None], score, float("-inf"))
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
    value = tl.load(base + (heads + kv_heads + head) * depth + lane)
    tl.store(values + position * depth + lane, value)

    one = tl.arange(0, tile)
    inside = (one < shared)[:, None]
    query = _heads(base + (head * shared + one)[:, None] * depth, q_weight, cos, sin, inside, depth, eps, kind)

    # its own position comes from registers, so the store above is not read back
    most = tl.sum(query.to(tl.float32) * key[None, :], 1) / tl.sqrt(tl.full((), depth, tl.float32))
    weight = tl.full((tile,), 1.0, tl.float32)
    mixed = tl.zeros((tile, depth), tl.float32) + value.to(tl.float32)[None, :]
    ends = tl.full((tile,), 0, tl.int64) + position
    mixed = _online(query, keys, values, ends, most, weight, mixed, depth, block)
    where = (batch * heads + head * shared + one)[:, None] * depth + lane[None, :]
    tl.store(out + where, mixed.to(kind), inside)


@triton.jit
def _pair(
    qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, out, capacity,
    kv_heads: tl.constexpr, shared: tl.constexpr, depth: tl.constexpr, eps: tl.constexpr,
    tile: tl.constexpr, block: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """Two rows of a request at consecutive positions. No two requests of a call may share a slot."""
    batch, head = tl.program_id(0), tl.program_id(1)
    lane = tl.arange(0, depth)
    announce(early)
    wait(early)
    half: tl.constexpr = depth // 2
    heads: tl.constexpr = kv_heads * shared
    kind = out.dtype.element_ty
    base = qkv + batch * 2 * (heads + 2 * kv_heads) * depth
    slot = tl.load(slots + batch)
    position = tl.load(positions + 2 * batch)
    store = (slot * kv_heads + head) * capacity
    keys += store * depth
    values += store * depth

    index = tl.arange(0, tile)
    own = tl.minimum(index, 1)[:, None]  # the row of each key; keys from the third on are masked
    there = (index < 2)[:, None]
    start = base + (own * (heads + 2 * kv_heads) + heads + head) * depth
    key = _heads(start, k_weight, cos + (position + own) * half, sin + (position + own) * half, there, depth, eps, kind)
    value = tl.load(start + kv_heads * depth + lane[None, :], there, 0.0)
    near = (position + own) * depth + lane[None, :]
    tl.store(keys + near, key, there)
    tl.store(values + near, value, there)

    row, one = tl.minimum(index // shared, 1), index % shared
    inside = (index < 2 * shared)[:, None]
    turn = (position + row)[:, None] * half
    start = base + (row * (heads + 2 * kv_heads) + head * shared + one)[:, None] * depth
    query = _heads(start, q_weight, cos + turn, sin + turn, inside, depth, eps, kind)

    # these two positions come from registers, so the stores above are not read back
    score = tl.dot(query, tl.trans(key), input_precision="ieee") / tl.sqrt(tl.full((), depth, tl.float32))
    score = tl.where(index[None, :] <= row[:, None], score, float("-inf"))
    most = tl.max(score, 1)
    chance = tl.exp(score - most[:, None])
    mixed = tl.dot(chance.to(kind), value, input_precision="ieee")
    ends = tl.full((tile,), 0, tl.int64) + position
    mixed = _online(query, keys, values, ends, most, tl.sum(chance, 1), mixed, depth, block)
    where = ((2 * batch + row) * heads + head * shared + one)[:, None] * depth + lane[None, :]
    tl.store(out + where, mixed.to(kind), inside)


@triton.jit
def _write(
    qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, queries, rows, capacity,
    kv_heads: tl.constexpr, heads: tl.constexpr, depth: tl.constexpr, eps: tl.constexpr,
    group: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """One program per row and `group` heads, which are either all queries, all keys, or all values."""
    announce(early)
    wait(early)
    row, part = tl.program_id(0), tl.program_id(1) * group
    one = tl.arange(0, group)
    near = one[:, None] * depth + tl.arange(0, depth)[None, :]
    everyone = one[:, None] < group
    kind = queries.dtype.element_ty
    base = qkv + (row * (heads + 2 * kv_heads) + part) * depth
    slot = tl.load(slots + row // rows)
    position = tl.load(positions + row)
    cos += position * (depth // 2)
    sin += position * (depth // 2)
    apart = one[:, None] * capacity * depth + tl.arange(0, depth)[None, :]  # heads of the cache
    start = base + one[:, None] * depth
    if part < heads:
        query = _heads(start, q_weight, cos, sin, everyone, depth, eps, kind)
        tl.store(queries + (row * heads + part) * depth + near, query)
    elif part < heads + kv_heads:
        where = ((slot * kv_heads + part - heads) * capacity + position) * depth
        tl.store(keys + where + apart, _heads(start, k_weight, cos, sin, everyone, depth, eps, kind))
    else:
        where = ((slot * kv_heads + part - heads - kv_heads) * capacity + position) * depth
        tl.store(values + where + apart, tl.load(base + near))


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
    most = tl.full((tile,), float("-inf"), tl.float32)
    weight = tl.zeros((tile,), tl.float32)
    mixed = tl.zeros((tile, depth), tl.float32)
    mixed = _online(query, keys, values, position + 1, most, weight, mixed, depth, block)
    tl.store(out + where, mixed.to(out.dtype.element_ty), inside[:, None])


def _frame_tile(batch: int, capacity: int) -> tuple[int, int, int]:
    """Keys per iteration, warps, and pipeline stages. The more programs run, the fewer warps each needs."""
    if capacity <= 16:
        return 16, 1 if batch == 1 or batch > 32 else 2, 3
    if batch <= 16:
        return 64, 2 if batch == 1 else 4, 3
    if batch <= 32:
        return 32, 1, 3
    return 16, 1, 4 if batch <= 64 else 3 if batch <= 128 else 2


# ---- both as `AttendCached` in `kernels/ops.py`; `width` is not used: each program reads its length from `positions`


def attend_few(
    qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor,
    keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor, width: int,
) -> Tensor:  # fmt: skip
    """One or two positions of each request, with up to 16 query heads of a kv head."""
    kv_heads, capacity, depth = keys.shape[1:]
    batch, rows = positions.shape
    heads = qkv.shape[-1] // depth - 2 * kv_heads
    out = torch.empty((batch, rows, heads * depth), dtype=qkv.dtype, device=qkv.device)
    block, warps, stages = _frame_tile(batch, capacity)
    (_frame if rows == 1 else _pair)[(batch, kv_heads)](
        qkv.contiguous(), q_weight, k_weight, cos, sin, keys, values, slots, positions.contiguous(), out, capacity,
        kv_heads, heads // kv_heads, depth, eps, TILE, block, overlaps(),
        num_warps=warps, num_stages=stages, launch_pdl=overlaps(),
    )  # fmt: skip
    return out


def attend_prompt(
    qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor,
    keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor, width: int,
) -> Tensor:  # fmt: skip
    """Any number of positions."""
    kv_heads, capacity, depth = keys.shape[1:]
    batch, rows = positions.shape
    heads = qkv.shape[-1] // depth - 2 * kv_heads
    shared = heads // kv_heads
    out = torch.empty((batch, rows, heads * depth), dtype=qkv.dtype, device=qkv.device)
    qkv, positions = qkv.contiguous(), positions.contiguous()
    queries = torch.empty_like(out)
    group = min(kv_heads & -kv_heads, heads & -heads, 8)
    _write[(batch * rows, (heads + 2 * kv_heads) // group)](
        qkv, q_weight, k_weight, cos, sin, keys, values, slots, positions, queries, rows, capacity,
        kv_heads, heads, depth, eps, group, overlaps(), num_warps=4 if group == 8 else 1, launch_pdl=overlaps(),
    )  # fmt: skip
    _attend[(batch, kv_heads, triton.cdiv(rows * shared, TILE))](
        queries, keys, values, slots, positions, out, rows, capacity,
        kv_heads, shared, depth, TILE, 32, overlaps(), num_warps=4, launch_pdl=overlaps(),
    )  # fmt: skip
    return out
