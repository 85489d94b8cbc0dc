"""Products with matrices in 8 bits, whose layout plain_eight.py describes: the weights are read as bytes and become
floats in registers.

For one or two rows, a program multiplies whole numbers with a row, sums each group of inputs in float32, and multiplies
the sum with the scale of the group: nothing is rounded before the end. For more rows, the weights are rounded to the
format of the rows and go through the tensor cores; in bfloat16 this is a small part of the error of 8 bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels.ops import Normed
from omnitts_cli.kernels.plain_eight import group_of
from omnitts_cli.kernels.tiles import ADDED, GATED, LINEAR, eight_row_tile, eight_tile
from omnitts_cli.kernels.triton.norms import add_norm, norm
from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait
from omnitts_cli.kernels.triton.products import ADD, PLAIN, SWIGLU, padded
from omnitts_cli.kernels.triton.shared_memory import stages_in


@triton.jit
def _eight(
    x, norm, weight, bias, extra, out, outputs: tl.constexpr, inputs: tl.constexpr, eps: tl.constexpr,
    normed: tl.constexpr, biased: tl.constexpr, ending: tl.constexpr, early: tl.constexpr,
    block_n: tl.constexpr, groups: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    """Some outputs of one row. All weights of a program are asked for at once, so it waits for memory once; `groups`:
    those of all inputs, filled up to a power of two; `size`: inputs of a group."""
    lines = tl.program_id(0) * block_n + tl.arange(0, block_n)
    batch = tl.program_id(1)
    group = tl.arange(0, groups)
    k = group[:, None] * size + tl.arange(0, size)[None, :]
    every: tl.constexpr = inputs // size
    rows_of_weight: tl.constexpr = 2 * outputs if ending == SWIGLU else outputs
    here = weight.to(tl.pointer_type(tl.int8)) + lines[:, None, None] * inputs + k[None, :, :]
    scales = (weight + rows_of_weight * inputs).to(tl.pointer_type(tl.float16))
    scales += lines[:, None] * every + group[None, :]
    # the weights do not depend on the previous kernel, so they are asked for before it ends
    tile, scale = tl.load(here, k[None, :, :] < inputs, 0), tl.load(scales, group[None, :] < every, 0.0)
    gate, gate_scale = tile, scale
    if ending == SWIGLU:
        gate = tl.load(here + outputs * inputs, k[None, :, :] < inputs, 0)
        gate_scale = tl.load(scales + outputs * every, group[None, :] < every, 0.0)
    wait(early)
    announce(early)
    part = tl.load(x + batch * inputs + k, k < inputs, 0.0).to(tl.float32)
    factor = 1.0
    if normed:
        factor = tl.rsqrt(tl.sum(tl.sum(part * part, 1), 0) / inputs + eps)
        part *= tl.load(norm + k, k < inputs, 0.0).to(tl.float32)
    y = tl.sum(tl.sum(tile.to(tl.float32) * part[None, :, :], 2) * scale.to(tl.float32), 1) * factor
    if biased:
        y += tl.load(bias + lines).to(tl.float32)
    kind = out.dtype.element_ty
    place = batch * outputs + lines
    if ending == ADD:
        y = y.to(kind).to(tl.float32) + tl.load(extra + place).to(tl.float32)
    if ending == SWIGLU:
        up = tl.sum(tl.sum(gate.to(tl.float32) * part[None, :, :], 2) * gate_scale.to(tl.float32), 1) * factor
        y = y.to(kind).to(tl.float32)
        y = (y * tl.sigmoid(y)).to(kind).to(tl.float32) * up.to(kind).to(tl.float32)
    tl.store(out + place, y.to(kind))


@triton.jit
def _floats(here, scales, kind: tl.constexpr, block_n: tl.constexpr, groups: tl.constexpr, size: tl.constexpr):
    """A tile of weights [block_n, groups * size]."""
    scale = tl.broadcast_to(tl.load(scales).to(tl.float32)[:, :, None], (block_n, groups, size))
    return (tl.load(here).to(tl.float32) * tl.reshape(scale, (block_n, groups * size))).to(kind)


@triton.jit
def _eights(
    x, weight, bias, out, count, outputs: tl.constexpr, inputs: tl.constexpr, share: tl.constexpr,
    gated: tl.constexpr, biased: tl.constexpr, early: tl.constexpr,
    block_m: tl.constexpr, block_n: tl.constexpr, groups: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    """Rows together. The inner sum may be split into parts of `share` inputs: out [parts, count, outputs]."""
    line = tl.program_id(0) * block_n + tl.arange(0, block_n)
    part = tl.program_id(1)
    batch = tl.program_id(2) * block_m + tl.arange(0, block_m)
    there = batch[None, :] < count
    rows = tl.minimum(line, outputs - 1)
    every: tl.constexpr = inputs // size
    block_k: tl.constexpr = groups * size
    lanes = tl.arange(0, block_k)
    rows_of_weight: tl.constexpr = 2 * outputs if gated else outputs
    here = weight.to(tl.pointer_type(tl.int8)) + rows[:, None] * inputs + part * share + lanes[None, :]
    scales = (weight + rows_of_weight * inputs).to(tl.pointer_type(tl.float16))
    scales += rows[:, None] * every + part * (share // size) + tl.arange(0, groups)[None, :]
    source = x + batch[None, :] * inputs + lanes[:, None] + part * share
    kind = x.dtype.element_ty
    total = tl.zeros((block_n, block_m), tl.float32)
    second = tl.zeros((block_n, block_m), tl.float32)
    announce(early)
    wait(early)
    for start in tl.range(0, share, block_k):
        row = tl.load(source + start, there, 0.0)
        at = start // size
        total = tl.dot(
            _floats(here + start, scales + at, kind, block_n, groups, size), row, total, input_precision="ieee"
        )
        if gated:
            other = _floats(here + outputs * inputs + start, scales + outputs * every + at, kind, block_n, groups, size)
            second = tl.dot(other, row, second, input_precision="ieee")
    made = out.dtype.element_ty
    if biased:
        total += tl.load(bias + rows).to(tl.float32)[:, None]
    if gated:
        gate = total.to(made).to(tl.float32)
        total = (gate * tl.sigmoid(gate)).to(made).to(tl.float32) * second.to(made).to(tl.float32)
    place = (part * count + batch)[None, :] * outputs + line[:, None]
    tl.store(out + place, total.to(made), there & (line < outputs)[:, None])


def _one_by_one(
    x: Tensor, norm: Tensor | None, eps: float, weight: Tensor, bias: Tensor | None, extra: Tensor | None, ending: int
) -> Tensor:
    """A program has one row."""
    x, inputs, gated = x.contiguous(), x.shape[-1], ending == SWIGLU.value
    size = group_of(weight, inputs)
    outputs = weight.shape[0] // (2 if gated else 1)
    tile = eight_row_tile(GATED if gated else LINEAR if ending == PLAIN.value else ADDED, outputs, inputs)
    out = torch.empty((*x.shape[:-1], outputs), dtype=x.dtype, device=x.device)
    _eight[(outputs // tile.outputs, x.numel() // inputs)](
        x, norm, weight, bias, extra, out, outputs, inputs, eps,
        norm is not None, bias is not None, ending, overlaps(), tile.outputs, tile.inputs // size, size,
        num_warps=tile.warps, launch_pdl=overlaps(),
    )  # fmt: skip
    return out


def _together(x: Tensor, weight: Tensor, bias: Tensor | None, kind: int) -> Tensor:
    """[parts, ..., outputs]: sums in float32 if there are several parts."""
    x, inputs = x.contiguous(), x.shape[-1]
    size = group_of(weight, inputs)
    count, outputs = x.numel() // inputs, weight.shape[0] // (2 if kind == GATED else 1)
    tile, block_m = eight_tile(kind, count, inputs), padded(count)
    # what a turn keeps: bytes, the weights as floats, and the rows
    turn = tile.inputs * (
        tile.outputs * (2 if kind == GATED else 1) * (1 + x.element_size()) + block_m * x.element_size()
    )
    dtype = torch.float32 if kind == ADDED else x.dtype
    out = torch.empty((tile.parts, *x.shape[:-1], outputs), dtype=dtype, device=x.device)
    _eights[(triton.cdiv(outputs, tile.outputs), tile.parts, triton.cdiv(count, block_m))](
        x, weight, bias, out, count, outputs, inputs, inputs // tile.parts, kind == GATED, bias is not None, overlaps(),
        block_m, tile.outputs, tile.inputs // size, size,
        num_warps=tile.warps, num_stages=stages_in(turn, tile.stages), launch_pdl=overlaps(),
    )  # fmt: skip
    return out


# ---- each as in `Ops`


def row_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return _one_by_one(x, None, 0.0, weight, bias, None, PLAIN.value)


def row_norm_linear(x: Normed, weight: Tensor) -> Tensor:
    return _one_by_one(x.rows, x.weight, x.eps, weight, None, None, PLAIN.value)


def row_norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    return _one_by_one(x.rows, x.weight, x.eps, gate_up, None, None, SWIGLU.value)


def row_linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    return Normed(_one_by_one(x, None, 0.0, weight, None, residual.contiguous(), ADD.value), norm, eps)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return _together(x, weight, bias, LINEAR)[0]


def norm_linear(x: Normed, weight: Tensor) -> Tensor:
    return _together(norm(x), weight, None, LINEAR)[0]


def norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    return _together(norm(x), gate_up, None, GATED)[0]


def linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    return add_norm(_together(x, weight, None, ADDED).flatten(1, -2), residual.contiguous(), norm, eps)
