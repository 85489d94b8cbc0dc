"""Matrices in 8 bits on a card, and plain products with them. A matrix is a uint8 tensor [..., outputs, bytes]: first
the whole numbers of all outputs, then a float16 scale for each group of 32 inputs of each output. Rows keep their own
precision, and sums are float32. The numbers and scales are those of `quantise_block` in cpu/native/quantised.h.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import GROUP, Normed, grouped_shape

MOST = 127.0
LARGEST = 65504.0  # of float16


def pack(weight: Tensor) -> Tensor:
    """weight [..., outputs, inputs] -> the matrix. A ValueError says why a weight cannot be used."""
    outputs, inputs = weight.shape[-2:]
    if inputs % GROUP:
        raise ValueError(f"has {inputs} inputs, which is not a multiple of {GROUP}")
    made = torch.empty(grouped_shape(tuple(weight.shape)), dtype=torch.uint8, device=weight.device)
    shaped = weight.reshape(-1, outputs, inputs)
    for one, out in zip(shaped, made.view(shaped.shape[0], outputs, -1), strict=True):
        groups = one.float().view(outputs, -1, GROUP)
        top = groups.abs().amax(-1, keepdim=True)
        if not bool((top <= LARGEST * MOST).all()):
            infinite = not bool(torch.isfinite(top).all())
            raise ValueError("holds NaN or infinity" if infinite else "holds numbers that do not fit 8 bits")
        scales = (top / MOST).half()
        known = scales.float()
        whole = torch.where(known > 0, groups / known, torch.zeros_like(groups)).clamp_(-MOST, MOST).round_()
        numbers, places = parts(out)
        numbers.copy_(whole.view(outputs, inputs))
        places.copy_(scales.view(outputs, -1))
    return made


def inputs_of(matrix: Tensor) -> int:
    """The inputs of a matrix [outputs, bytes]."""
    return matrix.shape[-1] * GROUP // (GROUP + 2)


def parts(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Views of a matrix [outputs, bytes]: its numbers [outputs, inputs] int8 and scales [outputs, groups] float16."""
    outputs, inputs = matrix.shape[0], inputs_of(matrix)
    flat = matrix.view(-1)
    numbers = flat[: outputs * inputs].view(torch.int8).view(outputs, inputs)
    return numbers, flat[outputs * inputs :].view(torch.float16).view(outputs, -1)


def floats(matrix: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The matrix as [outputs, inputs]."""
    numbers, scales = parts(matrix)
    whole = numbers.view(*scales.shape, GROUP).float() * scales[..., None].float()
    return whole.view(numbers.shape).to(dtype)


# ---- each as in `Ops`


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x, floats(weight, x.dtype), bias)


def norm_linear(x: Normed, weight: Tensor) -> Tensor:
    return linear(plain.norm(x), weight)


def norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    gate, up = norm_linear(x, gate_up).chunk(2, -1)
    return F.silu(gate) * up


def linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    return Normed(residual + linear(x, weight), norm, eps)
