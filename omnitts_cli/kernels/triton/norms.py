"""RMS norm, alone or after a product that was split into parts: one program per row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels.ops import Normed
from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait


@triton.jit
def _rms_norm(x, weight, out, width: tl.constexpr, block: tl.constexpr, eps: tl.constexpr, early: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, block)
    inside = column < width
    announce(early)
    scale = tl.load(weight + column, inside, 0.0)
    wait(early)
    wide = tl.load(x + row * width + column, inside, 0.0).to(tl.float32)
    wide *= tl.rsqrt(tl.sum(wide * wide) / width + eps)
    # rounded before the weight, as in the plain version
    tl.store(out + row * width + column, wide.to(scale.dtype) * scale, inside)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    width = x.shape[-1]
    x = x.contiguous()
    out = torch.empty_like(x)
    _rms_norm[(x.numel() // width,)](
        x, weight, out, width, triton.next_power_of_2(width), eps, overlaps(), num_warps=4, launch_pdl=overlaps()
    )
    return out


@triton.jit
def _add_norm(
    sums, residual, weight, rows, out, count,
    width: tl.constexpr, block: tl.constexpr, parts: tl.constexpr, eps: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    column = tl.arange(0, block)
    inside = column < width
    kind = rows.dtype.element_ty
    announce(early)
    scale = tl.load(weight + column, inside, 0.0)
    wait(early)
    wide = tl.load(sums + row * width + column, inside, 0.0)
    for part in tl.static_range(1, parts):
        wide += tl.load(sums + (part * count + row) * width + column, inside, 0.0)
    # rounded where the plain version rounds: the product, the sum with the residual, the norm before its weight
    wide = wide.to(kind).to(tl.float32) + tl.load(residual + row * width + column, inside, 0.0).to(tl.float32)
    tl.store(rows + row * width + column, wide.to(kind), inside)
    wide = wide.to(kind).to(tl.float32)
    wide *= tl.rsqrt(tl.sum(wide * wide) / width + eps)
    tl.store(out + row * width + column, wide.to(kind) * scale, inside)


def add_norm(sums: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Normed:
    """Adds the parts [parts, count, H] of a product to the residual [..., H], and norms the sum."""
    (parts, count, width), rows, out = sums.shape, torch.empty_like(residual), torch.empty_like(residual)
    _add_norm[(count,)](
        sums, residual, weight, rows, out, count, width, triton.next_power_of_2(width), parts, eps, overlaps(),
        num_warps=8, launch_pdl=overlaps(),
    )  # fmt: skip
    return Normed(rows, weight, eps, out)


def norm(x: Normed) -> Tensor:
    return rms_norm(x.rows, x.weight, x.eps) if x.value is None else x.value
