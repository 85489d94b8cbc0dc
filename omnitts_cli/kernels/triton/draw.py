"""Drawing a code: temperature, top-k, top-p and the draw, one program per row.

The k-th largest logit is found two bits at a time, the top-p cut by bisection, both on the bits of the logits read
as integers of the same order. Nothing is sorted.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels.ops import Normed
from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait


@triton.jit
def _ordered(x):
    """float32 -> int32 that sort the same way."""
    bits = x.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _mix(x):
    """The hash of the plain version, in 32 bits."""
    x = (x ^ (x >> 16)) * 0x21F0AAAD
    x = (x ^ (x >> 15)) * 0x735A2D97
    return x ^ (x >> 15)


@triton.jit
def _uniform(seed, frame, group):
    low = seed.to(tl.uint32)
    high = (seed >> 32).to(tl.uint32)
    bits = _mix(_mix(_mix((frame * 64 + group).to(tl.uint32)) ^ low) ^ high)
    return (bits >> 8).to(tl.float32) * (1.0 / 16777216.0)


@triton.jit
def _kth(keys, inside, wanted, bits: tl.constexpr):
    """The `wanted`-th largest of `keys`, signed integers of `bits` bits, at most 65,535 of them. A pass settles two
    bits: one sum in int64 counts all four digits, with 16 bits for each.
    """
    kind: tl.constexpr = tl.int32 if bits == 16 else tl.int64
    order = keys.to(kind) + (1 << (bits - 1))  # from 0
    found = tl.full((), 0, kind)
    left = wanted.to(tl.int64)
    for turn in tl.static_range(bits // 2):
        digit = (order >> (bits - 2 * turn - 2)) & 3
        among = inside & ((order >> (bits - 2 * turn)) == found)
        counts = tl.sum(tl.where(among, tl.full((), 1, tl.int64) << (digit * 16).to(tl.int64), 0))
        three = (counts >> 48) & 0xFFFF
        two = three + ((counts >> 32) & 0xFFFF)
        one = two + ((counts >> 16) & 0xFFFF)
        chosen = tl.where(left <= three, 3, tl.where(left <= two, 2, tl.where(left <= one, 1, 0)))
        left -= tl.where(left <= three, 0, tl.where(left <= two, three, tl.where(left <= one, two, one)))
        found = found * 4 + chosen.to(kind)
    return (found - (1 << (bits - 1))).to(tl.int32)


@triton.jit
def _choose(
    logits, seeds, frames, group, temperature, top_k, top_p, table, out, rows,
    size: tl.constexpr, block: tl.constexpr, bits: tl.constexpr,
    entries: tl.constexpr, width: tl.constexpr, wide: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    announce(early)
    wait(early)
    row = tl.program_id(0)
    code = tl.arange(0, block)
    inside = code < size
    raw = tl.load(logits + row * size + code, inside, float("-inf")).to(tl.float32)
    heat = tl.load(temperature + row)
    if heat == 0.0:
        drawn = tl.argmax(raw, 0).to(tl.int32)
    else:
        # 16 bits order a 16-bit logit; the temperature does not change the order
        keys = _ordered(raw) >> (32 - bits)
        least: tl.constexpr = -(1 << (bits - 1))
        wanted = tl.load(top_k + row).to(tl.int32)
        kept = inside
        if (wanted > 0) & (wanted < size):
            kept = inside & (keys >= _kth(keys, inside, wanted, bits))
        chance = tl.where(kept, tl.exp((raw - tl.max(raw)) / heat), 0.0)
        mass = tl.load(top_p + row)
        if mass < 1.0:
            # a logit is kept if the strictly larger ones do not reach the mass by themselves
            goal = mass * tl.sum(chance)
            low = tl.full((), least, tl.int64)
            high = tl.max(tl.where(kept, keys, least)).to(tl.int64)
            for _ in range(bits):
                middle = (low + high) >> 1
                reached = tl.sum(tl.where(keys > middle.to(tl.int32), chance, 0.0)) >= goal
                low = tl.where(reached, middle + 1, low)
                high = tl.where(reached, high, middle)
            chance = tl.where(keys >= high.to(tl.int32), chance, 0.0)
        walked = tl.cumsum(chance, 0)
        target = _uniform(tl.load(seeds + row), tl.load(frames + row), group) * tl.sum(chance)
        drawn = tl.minimum(tl.sum((inside & (walked <= target)).to(tl.int32)), size - 1)
    tl.store(out + row, drawn.to(tl.int64))
    if width:
        # the end code may have no row; its row is never used
        column = tl.arange(0, wide)
        held = column < width
        line = tl.minimum(drawn, entries - 1) * width
        tl.store(rows + row * width + column, tl.load(table + line + column, held), held)


def choose(
    logits: Tensor,
    seeds: Tensor,
    frames: Tensor,
    group: int,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
) -> Tensor:
    return choose_row(logits, seeds, frames, group, temperature, top_k, top_p, None)[0]


def choose_row(
    logits: Tensor,
    seeds: Tensor,
    frames: Tensor,
    group: int,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    table: Normed | None,
) -> tuple[Tensor, Normed | None]:
    logits = logits.contiguous()
    batch, size = logits.shape
    out = torch.empty(batch, dtype=torch.int64, device=logits.device)
    lines = None if table is None else table.rows.contiguous()
    entries, width = (0, 0) if lines is None else lines.shape
    rows = None if lines is None else lines.new_empty(batch, width)
    bits = 16 if logits.dtype == torch.bfloat16 else 32
    power = triton.next_power_of_2
    _choose[(batch,)](
        logits, seeds, frames, group, temperature, top_k, top_p, lines, out, rows,
        size, power(size), bits, entries, width, power(max(width, 1)), overlaps(),
        num_warps=4 if size <= 2048 else 8, launch_pdl=overlaps(),
    )  # fmt: skip
    return out, None if rows is None or table is None else table._replace(rows=rows, value=None)
