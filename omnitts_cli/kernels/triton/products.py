"""Products for few rows, with the norm before and the add or gate behind in the same kernel where it pays.

A speech frame is a long chain of small products, so what counts is bytes and the number of kernels.
Measured on one H200 (benchmarks/LOG.md): a single row streams the weights 1.2 to 3.5 times as fast through
a matrix-vector kernel as through the vendor's library, norm and gate included; for 2 to 64 rows a narrow
tensor-core kernel wins where the result is gated or added to a residual, and the library everywhere else.

The vector kernel finds the norm's scale in its one pass over the row: with y = W (x * n) and
s = sum(x * x), the answer is y * rsqrt(s / K + eps).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels.triton.norms import rms_norm
from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait

PLAIN = tl.constexpr(0)
ADD = tl.constexpr(1)
SWIGLU = tl.constexpr(2)


@triton.jit
def _vector(
    x, norm, weight, bias, extra, out, outputs: tl.constexpr, inputs: tl.constexpr, eps: tl.constexpr,
    normed: tl.constexpr, biased: tl.constexpr, ending: tl.constexpr, early: tl.constexpr,
    block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * block_n + tl.arange(0, block_n)
    lanes = tl.arange(0, block_k)
    total = tl.zeros((block_n, block_k), tl.float32)
    second = tl.zeros((block_n, block_k), tl.float32)
    squares = tl.zeros((block_k,), tl.float32)
    announce(early)
    # the weights do not depend on the kernel in front: the first of them are on their way before it ends
    here = weight + rows[:, None] * inputs + lanes[None, :]
    tile = tl.load(here)
    gate = tl.load(here + outputs * inputs) if ending == SWIGLU else tile
    wait(early)
    for start in tl.range(0, inputs, block_k):
        k = start + lanes
        heard = tl.load(x + k).to(tl.float32)
        if normed:
            squares += heard * heard
            heard *= tl.load(norm + k).to(tl.float32)
        total += tile.to(tl.float32) * heard[None, :]
        if ending == SWIGLU:
            second += gate.to(tl.float32) * heard[None, :]
        more = start + block_k < inputs
        tile = tl.load(here + start + block_k, more)
        if ending == SWIGLU:
            gate = tl.load(here + outputs * inputs + start + block_k, more)
    y = tl.sum(total, 1)
    gated = tl.sum(second, 1)
    if normed:
        scale = tl.rsqrt(tl.sum(squares) / inputs + eps)
        y *= scale
        gated *= scale
    if biased:
        y += tl.load(bias + rows).to(tl.float32)
    kind = out.dtype.element_ty
    if ending == ADD:
        y = y.to(kind).to(tl.float32) + tl.load(extra + rows).to(tl.float32)
    if ending == SWIGLU:
        y = y.to(kind).to(tl.float32)
        y = (y * tl.sigmoid(y)).to(kind).to(tl.float32) * gated.to(kind).to(tl.float32)
    tl.store(out + rows, y.to(kind))


@triton.jit
def _matrix(
    x, weight, extra, out, count, outputs: tl.constexpr, inputs: tl.constexpr, ending: tl.constexpr,
    early: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * block_n + tl.arange(0, block_n)
    batch = tl.arange(0, block_m)
    lanes = tl.arange(0, block_k)
    there = batch[None, :] < count
    here = weight + rows[:, None] * inputs + lanes[None, :]
    heard = x + batch[None, :] * inputs + lanes[:, None]
    total = tl.zeros((block_n, block_m), tl.float32)
    second = tl.zeros((block_n, block_m), tl.float32)
    announce(early)
    wait(early)
    for start in tl.range(0, inputs, block_k):
        row = tl.load(heard + start, there, 0.0)
        total = tl.dot(tl.load(here + start), row, total, input_precision="ieee")
        if ending == SWIGLU:
            second = tl.dot(tl.load(here + outputs * inputs + start), row, second, input_precision="ieee")
    kind = out.dtype.element_ty
    where = batch[None, :] * outputs + rows[:, None]
    y = total.to(kind).to(tl.float32)
    if ending == ADD:
        y += tl.load(extra + where, there, 0.0).to(tl.float32)
    if ending == SWIGLU:
        y = (y * tl.sigmoid(y)).to(kind).to(tl.float32) * second.to(kind).to(tl.float32)
    tl.store(out + where, y.to(kind), there)


@triton.jit
def _swiglu(gate_up, out, inner: tl.constexpr, block: tl.constexpr, early: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.program_id(1) * block + tl.arange(0, block)
    inside = lane < inner
    announce(early)
    wait(early)
    gate = tl.load(gate_up + row * 2 * inner + lane, inside, 0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * inner + inner + lane, inside, 0.0).to(tl.float32)
    kind = out.dtype.element_ty
    tl.store(out + row * inner + lane, ((gate * tl.sigmoid(gate)).to(kind).to(tl.float32) * up).to(kind), inside)


def _turn(inputs: int, most: int) -> int:
    """Inputs of one turn of the loop: the largest power of two that divides them, at most `most`."""
    return min(inputs & -inputs, most)


def _one_row(
    x: Tensor, norm: Tensor | None, eps: float, weight: Tensor, bias: Tensor | None, extra: Tensor | None, ending: int
) -> Tensor | None:
    """The vector kernel; None when there are more rows, or sizes that it does not divide."""
    inputs = weight.shape[1]
    outputs = weight.shape[0] // (2 if ending == SWIGLU.value else 1)
    block_n, block_k = 2, _turn(inputs, 1024)
    if x.numel() != inputs or outputs % block_n or block_k < 32:
        return None
    out = torch.empty((*x.shape[:-1], outputs), dtype=x.dtype, device=x.device)
    _vector[(outputs // block_n,)](
        x, norm, weight, bias, extra, out, outputs, inputs, eps,
        norm is not None, bias is not None, ending, overlaps(), block_n, block_k, num_warps=4, launch_pdl=overlaps(),
    )  # fmt: skip
    return out


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out = _one_row(x, None, 0.0, weight, bias, None, PLAIN.value)
    return F.linear(x, weight, bias) if out is None else out


def norm_linear(x: Tensor, norm: Tensor, eps: float, weight: Tensor) -> Tensor:
    out = _one_row(x, norm, eps, weight, None, None, PLAIN.value)
    return F.linear(rms_norm(x, norm, eps), weight) if out is None else out


def _tile(ending: int, count: int, inputs: int) -> tuple[int, int, int, int] | None:
    """(outputs a program, inputs a turn, warps, stages) where the narrow kernel wins; None where the library does."""
    if ending == ADD.value and inputs <= 3072:
        if count <= 16:
            return 32, 256, 4, 3
        if count <= 32:
            return 32, 128, 2, 5
        return (16, 256, 2, 4) if count <= 64 and inputs < 3072 else None
    if ending == SWIGLU.value and count <= 64:
        return (32, 128, 2, 5) if count <= 16 and inputs <= 1024 else (64, 128, 4, 3)
    return None


def _few_rows(x: Tensor, weight: Tensor, extra: Tensor | None, ending: int) -> Tensor | None:
    """The narrow kernel, or None."""
    inputs = weight.shape[1]
    outputs = weight.shape[0] // (2 if ending == SWIGLU.value else 1)
    count = x.numel() // inputs
    tile = _tile(ending, count, inputs)
    if tile is None:
        return None
    block_n, block_k, warps, stages = tile
    block_k = _turn(inputs, block_k)
    if outputs % block_n or block_k < 32:
        return None
    out = torch.empty((*x.shape[:-1], outputs), dtype=x.dtype, device=x.device)
    block_m = max(16, triton.next_power_of_2(count))
    _matrix[(outputs // block_n,)](
        x, weight, extra, out, count, outputs, inputs, ending, overlaps(), block_m, block_n, block_k,
        num_warps=warps, num_stages=stages, launch_pdl=overlaps(),
    )  # fmt: skip
    return out


def norm_swiglu(x: Tensor, norm: Tensor, eps: float, gate_up: Tensor) -> Tensor:
    out = _one_row(x, norm, eps, gate_up, None, None, SWIGLU.value)
    if out is not None:
        return out
    normed = rms_norm(x, norm, eps)
    out = _few_rows(normed, gate_up, None, SWIGLU.value)
    if out is not None:
        return out
    both = F.linear(normed, gate_up)
    inner = gate_up.shape[0] // 2
    out = torch.empty((*x.shape[:-1], inner), dtype=x.dtype, device=x.device)
    _swiglu[(both.numel() // (2 * inner), triton.cdiv(inner, 1024))](
        both, out, inner, 1024, overlaps(), num_warps=4, launch_pdl=overlaps()
    )
    return out


def linear_add(x: Tensor, weight: Tensor, residual: Tensor) -> Tensor:
    x, residual = x.contiguous(), residual.contiguous()
    out = _one_row(x, None, 0.0, weight, None, residual, ADD.value)
    if out is None:
        out = _few_rows(x, weight, residual, ADD.value)
    if out is None:
        out = torch.addmm(residual.flatten(0, -2), x.flatten(0, -2), weight.T).view(residual.shape)
    return out
