"""Linears that stream their weights once for few rows, with the norm before and the add or gate behind.

A speech frame is a long chain of small products, so what counts is bytes and the number of kernels.
One row goes through a matrix-vector kernel, up to 64 through a tensor-core kernel that pads them to a
tile; more rows go to the vendor's library. The norm's row scale is found in the same pass over the row:
with y = W (x * n) and s = sum(x * x), the answer is y * rsqrt(s / K + eps).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels.triton.norm import rms_norm

MOST_ROWS = 64

PLAIN = tl.constexpr(0)
ADD = tl.constexpr(1)
SWIGLU = tl.constexpr(2)


@triton.jit
def _vector(
    x, norm, weight, bias, extra, out, outputs: tl.constexpr, inputs: tl.constexpr, eps: tl.constexpr,
    normed: tl.constexpr, biased: tl.constexpr, ending: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * block_n + tl.arange(0, block_n)
    lanes = tl.arange(0, block_k)
    total = tl.zeros((block_n, block_k), tl.float32)
    second = tl.zeros((block_n, block_k), tl.float32)
    squares = tl.zeros((block_k,), tl.float32)
    for start in tl.range(0, inputs, block_k):
        k = start + lanes
        heard = tl.load(x + k).to(tl.float32)
        if normed:
            squares += heard * heard
            heard *= tl.load(norm + k).to(tl.float32)
        tile = tl.load(weight + rows[:, None] * inputs + k[None, :]).to(tl.float32)
        total += tile * heard[None, :]
        if ending == SWIGLU:
            tile = tl.load(weight + (rows[:, None] + outputs) * inputs + k[None, :]).to(tl.float32)
            second += tile * heard[None, :]
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
    x, norm, weight, bias, extra, out, count, outputs: tl.constexpr, inputs: tl.constexpr, eps: tl.constexpr,
    normed: tl.constexpr, biased: tl.constexpr, ending: tl.constexpr,
    block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * block_n + tl.arange(0, block_n)
    batch = tl.arange(0, block_m)
    lanes = tl.arange(0, block_k)
    there = batch[None, :] < count
    total = tl.zeros((block_n, block_m), tl.float32)
    second = tl.zeros((block_n, block_m), tl.float32)
    squares = tl.zeros((block_m,), tl.float32)
    for start in tl.range(0, inputs, block_k):
        k = start + lanes
        heard = tl.load(x + batch[None, :] * inputs + k[:, None], there, 0.0)
        if normed:
            wide = heard.to(tl.float32)
            squares += tl.sum(wide * wide, 0)
            heard = (wide * tl.load(norm + k).to(tl.float32)[:, None]).to(heard.dtype)
        tile = tl.load(weight + rows[:, None] * inputs + k[None, :])
        total = tl.dot(tile, heard, total, input_precision="ieee")
        if ending == SWIGLU:
            tile = tl.load(weight + (rows[:, None] + outputs) * inputs + k[None, :])
            second = tl.dot(tile, heard, second, input_precision="ieee")
    if normed:
        scale = tl.rsqrt(squares / inputs + eps)[None, :]
        total *= scale
        second *= scale
    if biased:
        total += tl.load(bias + rows).to(tl.float32)[:, None]
    kind = out.dtype.element_ty
    where = batch[None, :] * outputs + rows[:, None]
    y = total.to(kind).to(tl.float32)
    if ending == ADD:
        y += tl.load(extra + where, there, 0.0).to(tl.float32)
    if ending == SWIGLU:
        y = (y * tl.sigmoid(y)).to(kind).to(tl.float32) * second.to(kind).to(tl.float32)
    tl.store(out + where, y.to(kind), there)


def _blocks_vector(outputs: int, inputs: int) -> tuple[int, int, int]:
    """(outputs a program, inputs a turn, warps): measured on one H200, see benchmarks/LOG.md."""
    block_n = 8 if outputs >= 8192 else 4
    return block_n, largest_divisor(inputs, 1024), 8 if inputs > 512 else 4


def _blocks_matrix(outputs: int, inputs: int, block_m: int) -> tuple[int, int, int, int]:
    """(outputs a program, inputs a turn, warps, stages)."""
    block_n = 32 if outputs >= 6144 else 16
    return block_n, largest_divisor(inputs, 128 if block_m > 32 else 256), 4, 4


def largest_divisor(number: int, most: int) -> int:
    """The largest power of two that divides `number`, at most `most`."""
    return min(number & -number, most)


@triton.jit
def _swiglu(gate_up, out, inner: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.program_id(1) * block + tl.arange(0, block)
    inside = lane < inner
    gate = tl.load(gate_up + row * 2 * inner + lane, inside, 0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * inner + inner + lane, inside, 0.0).to(tl.float32)
    kind = out.dtype.element_ty
    tl.store(out + row * inner + lane, ((gate * tl.sigmoid(gate)).to(kind).to(tl.float32) * up).to(kind), inside)


def _run(
    x: Tensor, norm: Tensor | None, eps: float, weight: Tensor, bias: Tensor | None, extra: Tensor | None, ending: int
) -> Tensor | None:
    """None when these sizes are not ours."""
    inputs = weight.shape[1]
    outputs = weight.shape[0] // (2 if ending == SWIGLU.value else 1)
    count = x.numel() // inputs
    if count > MOST_ROWS:
        return None
    x = x.contiguous()
    flags = (norm is not None, bias is not None, ending)
    if count == 1:
        block_n, block_k, warps = _blocks_vector(outputs, inputs)
        if outputs % block_n or block_k < 32:
            return None
        out = torch.empty((*x.shape[:-1], outputs), dtype=x.dtype, device=x.device)
        _vector[(outputs // block_n,)](
            x, norm, weight, bias, extra, out, outputs, inputs, eps, *flags, block_n, block_k, num_warps=warps
        )
        return out
    block_m = max(16, triton.next_power_of_2(count))
    block_n, block_k, warps, stages = _blocks_matrix(outputs, inputs, block_m)
    if outputs % block_n or block_k < 32:
        return None
    out = torch.empty((*x.shape[:-1], outputs), dtype=x.dtype, device=x.device)
    _matrix[(outputs // block_n,)](
        x, norm, weight, bias, extra, out, count, outputs, inputs, eps, *flags, block_m, block_n, block_k,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out = _run(x, None, 0.0, weight, bias, None, PLAIN.value)
    return F.linear(x, weight, bias) if out is None else out


def norm_linear(x: Tensor, norm: Tensor, eps: float, weight: Tensor) -> Tensor:
    out = _run(x, norm, eps, weight, None, None, PLAIN.value)
    return F.linear(rms_norm(x, norm, eps), weight) if out is None else out


def norm_swiglu(x: Tensor, norm: Tensor, eps: float, gate_up: Tensor) -> Tensor:
    out = _run(x, norm, eps, gate_up, None, None, SWIGLU.value)
    if out is not None:
        return out
    both = F.linear(rms_norm(x, norm, eps), gate_up)
    inner = gate_up.shape[0] // 2
    out = torch.empty((*x.shape[:-1], inner), dtype=x.dtype, device=x.device)
    _swiglu[(both.numel() // (2 * inner), triton.cdiv(inner, 1024))](both, out, inner, 1024, num_warps=4)
    return out


def linear_add(x: Tensor, weight: Tensor, residual: Tensor) -> Tensor:
    out = _run(x, None, 0.0, weight, None, residual.contiguous(), ADD.value)
    if out is not None:
        return out
    flat = torch.addmm(residual.flatten(0, -2), x.flatten(0, -2), weight.T)
    return flat.view(residual.shape)
