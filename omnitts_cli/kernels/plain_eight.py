"""Matrices in 8 bits on a card, and plain products with them. A matrix is a uint8 tensor [..., outputs, bytes]: first
the whole numbers of all outputs, then a float16 scale for each group of inputs of each output. Its size tells how many
inputs are in a group. Rows keep their own precision, and sums are float32. The numbers and scales of groups of 32 are
those of `quantise_block` in cpu/native/quantised.h.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import GROUP, Normed, grouped_shape

MOST = 127.0
LARGEST = 65504.0  # of float16


def quantised(weight: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """weight [outputs, inputs] -> whole numbers of that shape, in floats, and scales [outputs, groups] float16. A
    ValueError says why a weight cannot be used."""
    groups = weight.float().view(len(weight), -1, group)
    top = groups.abs().amax(-1, keepdim=True)
    if not bool((top <= LARGEST * MOST).all()):
        infinite = not bool(torch.isfinite(top).all())
        raise ValueError("holds NaN or infinity" if infinite else "holds numbers that do not fit 8 bits")
    scales = (top / MOST).half()
    known = scales.float()
    whole = torch.where(known > 0, groups / known, torch.zeros_like(groups)).clamp_(-MOST, MOST).round_()
    return whole.view(weight.shape), scales.squeeze(-1)


def pack(weight: Tensor, group: int = GROUP) -> Tensor:
    """weight [..., outputs, inputs], inputs of a group -> the matrix. A ValueError says why a weight cannot be used."""
    outputs, inputs = weight.shape[-2:]
    if inputs % GROUP:
        raise ValueError(f"has {inputs} inputs, which is not a multiple of {GROUP}")
    made = torch.empty(grouped_shape(tuple(weight.shape), group), dtype=torch.uint8, device=weight.device)
    shaped = weight.reshape(-1, outputs, inputs)
    for one, out in zip(shaped, made.view(shaped.shape[0], outputs, -1), strict=True):
        for found, place in zip(quantised(one, group), parts(out, inputs), strict=True):
            place.copy_(found)
    return made


def group_of(matrix: Tensor, inputs: int) -> int:
    """How many inputs share a scale."""
    return 2 * inputs // (matrix.shape[-1] - inputs)


def parts(matrix: Tensor, inputs: int) -> tuple[Tensor, Tensor]:
    """Views of a matrix [outputs, bytes]: its numbers [outputs, inputs] int8 and scales [outputs, groups] float16."""
    outputs = matrix.shape[0]
    flat = matrix.view(-1)
    numbers = flat[: outputs * inputs].view(torch.int8).view(outputs, inputs)
    return numbers, flat[outputs * inputs :].view(torch.float16).view(outputs, -1)


def floats(matrix: Tensor, inputs: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """The matrix as [outputs, inputs]."""
    numbers, scales = parts(matrix, inputs)
    whole = numbers.view(*scales.shape, -1).float() * scales[..., None].float()
    return whole.view(numbers.shape).to(dtype)


# ---- each as in `Ops`


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    bias = None if bias is None else bias.to(x.dtype)  # tables are projected in float32
    return F.linear(x, floats(weight, x.shape[-1], x.dtype), bias)


def norm_linear(x: Normed, weight: Tensor) -> Tensor:
    return linear(plain.norm(x), weight)


def norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    gate, up = norm_linear(x, gate_up).chunk(2, -1)
    return F.silu(gate) * up


def linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    return Normed(residual + linear(x, weight), norm, eps)
