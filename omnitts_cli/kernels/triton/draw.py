"""Drawing a code: temperature, top-k, top-p and the draw, one program per row.

The k-th largest logit and the top-p cut are found by bisection on the bits of the logits, whose order is
kept by reading them as integers; nothing is sorted.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait


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
    logits, seeds, frames, group, temperature, top_k, top_p, out,
    size: tl.constexpr, block: tl.constexpr, bits: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    announce(early)
    wait(early)
    row = tl.program_id(0)
    code = tl.arange(0, block)
    inside = code < size
    raw = tl.load(logits + row * size + code, inside, float("-inf")).to(tl.float32)
    heat = tl.load(temperature + row)
    if heat == 0.0:
        tl.store(out + row, tl.argmax(raw, 0).to(tl.int64))
    else:
        # a logit of 16 bits has 16 bits of order; the temperature does not change it
        keys = _ordered(raw) >> (32 - bits)
        least: tl.constexpr = -(1 << (bits - 1))
        wanted = tl.load(top_k + row).to(tl.int32)
        wanted = tl.where(wanted <= 0, size, tl.minimum(wanted, size))
        # the largest threshold with at least `wanted` logits at or above it
        low = tl.full((), least, tl.int64)
        high = tl.full((), -least - 1, tl.int64)
        for _ in range(bits):
            middle = (low + high + 1) >> 1
            enough = tl.sum((inside & (keys >= middle.to(tl.int32))).to(tl.int32)) >= wanted
            low = tl.where(enough, middle, low)
            high = tl.where(enough, high, middle - 1)
        kept = inside & (keys >= low.to(tl.int32))
        chance = tl.where(kept, tl.exp((raw - tl.max(raw)) / heat), 0.0)
        mass = tl.load(top_p + row)
        if mass < 1.0:
            # a logit stays when the strictly larger ones do not reach the mass by themselves
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
    bits = 16 if logits.dtype == torch.bfloat16 else 32
    _choose[(batch,)](
        logits,
        seeds,
        frames,
        group,
        temperature,
        top_k,
        top_p,
        out,
        size,
        block,
        bits,
        overlaps(),
        num_warps=8,
        launch_pdl=overlaps(),
    )
    return out
