"""RMS norm, one program per row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

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
    # rounded before the weight, as the plain twin does
    tl.store(out + row * width + column, wide.to(scale.dtype) * scale, inside)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    width = x.shape[-1]
    x = x.contiguous()
    out = torch.empty_like(x)
    _rms_norm[(x.numel() // width,)](
        x, weight, out, width, triton.next_power_of_2(width), eps, overlaps(), num_warps=4, launch_pdl=overlaps()
    )
    return out
