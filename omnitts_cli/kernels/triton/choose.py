"""Drawing a code: temperature, top-k, top-p and the draw, one program per row.

The k-th largest logit and the top-p cut are found by bisection on the bits of the logits, whose order is
kept by reading them as integers; nothing is sorted.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _ordered(x):
    """float32 -> int32 of the same order."""
    bits = x.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _mix(x):
    """The hash of the plain twin, in the 32 bits that it has."""
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
def _choose(
    logits, seeds, frames, group, temperature, top_k, top_p, out, stride, size: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    code = tl.arange(0, block)
    inside = code < size
    raw = tl.load(logits + row * stride + code, inside, float("-inf")).to(tl.float32)
    heat = tl.load(temperature + row)
    best = tl.argmax(raw, 0)
    if heat == 0.0:
        tl.store(out + row, best.to(tl.int64))
    else:
        scaled = raw / heat
        keys = _ordered(scaled)
        wanted = tl.load(top_k + row).to(tl.int32)
        wanted = tl.where(wanted <= 0, size, tl.minimum(wanted, size))
        # the largest threshold with at least `wanted` logits at or above it
        low = tl.full((), -2147483648, tl.int64)
        high = tl.full((), 2147483647, tl.int64)
        wide = keys.to(tl.int64)
        for _ in range(32):
            middle = (low + high + 1) >> 1
            enough = tl.sum((inside & (wide >= middle)).to(tl.int32)) >= wanted
            low = tl.where(enough, middle, low)
            high = tl.where(enough, high, middle - 1)
        kept = inside & (wide >= low)
        most = tl.max(tl.where(kept, scaled, float("-inf")))
        chance = tl.where(kept, tl.exp(scaled - most), 0.0)
        mass = tl.load(top_p + row)
        if mass < 1.0:
            # a logit stays when the strictly larger ones do not reach the mass by themselves
            goal = mass * tl.sum(chance)
            low = tl.full((), -2147483648, tl.int64)
            high = tl.max(tl.where(kept, wide, -2147483648))
            for _ in range(32):
                middle = (low + high) >> 1
                reached = tl.sum(tl.where(wide > middle, chance, 0.0)) >= goal
                low = tl.where(reached, middle + 1, low)
                high = tl.where(reached, high, middle)
            chance = tl.where(wide >= high, chance, 0.0)
        walked = tl.cumsum(chance, 0)
        target = _uniform(tl.load(seeds + row), tl.load(frames + row), group) * tl.sum(chance)
        drawn = tl.sum((inside & (walked <= target)).to(tl.int32))
        tl.store(out + row, tl.minimum(drawn, size - 1).to(tl.int64))


def choose(
    logits: Tensor,
    seeds: Tensor,
    frames: Tensor,
    group: int,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
) -> Tensor:
    logits = logits.contiguous()
    batch, size = logits.shape
    out = torch.empty(batch, dtype=torch.int64, device=logits.device)
    block = triton.next_power_of_2(size)
    _choose[(batch,)](logits, seeds, frames, group, temperature, top_k, top_p, out, size, size, block, num_warps=8)
    return out
