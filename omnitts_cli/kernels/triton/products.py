"""Products for few rows, fused with the norm before them and the add or gate after them where that is faster.

A speech frame is a long chain of small products, so memory traffic and the number of kernels decide. Measured on one
H200 (benchmarks/LOG.md): for a single row a matrix-vector kernel reads the weights 1.2 to 3.5 times as fast as the
vendor's library, norm and gate included. For 2 to 128 rows, gated products are fastest with a narrow tensor-core
kernel, products that are added to a residual with one whose inner sum is split among programs, and all others with the
library. On Hopper many_rows.py takes some of the products of 65 to 256 rows, and kernels/cuda/prefetched.py some of 17
to 256.

The vector kernel computes the norm's scale in its one pass over the row: with y = W (x * n) and s = sum(x * x), the
result is y * rsqrt(s / K + eps).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels.ops import Normed
from omnitts_cli.kernels.triton import many_rows
from omnitts_cli.kernels.triton.norms import add_norm, norm
from omnitts_cli.kernels.triton.overlap import announce, fetch_ahead, overlaps, wait
from omnitts_cli.kernels.triton.shared_memory import stages_in

PLAIN = tl.constexpr(0)
ADD = tl.constexpr(1)
SWIGLU = tl.constexpr(2)

MOST_ROWS = 128
"""Rows up to which the narrow kernels are used."""
WIDEST = 64
"""The most rows of a tile. More rows take several tiles, and all but the first read weights from the L2 cache."""
AHEAD = 1024
"""The most outputs for which a split product prefetches its weights while the previous kernel finishes. With more, the
prefetch delays loads that are needed sooner."""


class Tile(NamedTuple):
    """The part of a product that one program computes, and its launch options."""

    outputs: int
    inputs: int  # per turn
    warps: int = 4
    stages: int = 1
    parts: int = 1  # programs among which one inner sum is split


ADD_TILE = Tile(64, 128, 4, 4, parts=4)
"""The tile of a split product that is added to a residual, for a few rows."""


@triton.jit
def _vector(
    x, norm, weight, bias, extra, out, outputs: tl.constexpr, inputs: tl.constexpr, eps: tl.constexpr,
    normed: tl.constexpr, biased: tl.constexpr, ending: tl.constexpr, early: tl.constexpr,
    block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    lines = tl.program_id(0) * block_n + tl.arange(0, block_n)
    lanes = tl.arange(0, block_k)
    total = tl.zeros((block_n, block_k), tl.float32)
    second = tl.zeros((block_n, block_k), tl.float32)
    squares = tl.zeros((block_k,), tl.float32)
    # the weights do not depend on the previous kernel, so the first loads are issued before it ends
    here = weight + lines[:, None] * inputs + lanes[None, :]
    tile = tl.load(here)
    gate = tl.load(here + outputs * inputs) if ending == SWIGLU else tile
    wait(early)
    announce(early)  # announced sooner, the next kernel would load its weights before the ones that are needed here
    for start in tl.range(0, inputs, block_k):
        k = start + lanes
        part = tl.load(x + k).to(tl.float32)
        if normed:
            squares += part * part
            part *= tl.load(norm + k).to(tl.float32)
        total += tile.to(tl.float32) * part[None, :]
        if ending == SWIGLU:
            second += gate.to(tl.float32) * part[None, :]
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
        y += tl.load(bias + lines).to(tl.float32)
    kind = out.dtype.element_ty
    if ending == ADD:
        y = y.to(kind).to(tl.float32) + tl.load(extra + lines).to(tl.float32)
    if ending == SWIGLU:
        y = y.to(kind).to(tl.float32)
        y = (y * tl.sigmoid(y)).to(kind).to(tl.float32) * gated.to(kind).to(tl.float32)
    tl.store(out + lines, y.to(kind))


@triton.jit
def _gated(
    x, weight, out, count, outputs: tl.constexpr, inputs: tl.constexpr, early: tl.constexpr,
    block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * block_n + tl.arange(0, block_n)
    batch = tl.program_id(1) * block_m + tl.arange(0, block_m)
    lanes = tl.arange(0, block_k)
    there = batch[None, :] < count
    here = weight + rows[:, None] * inputs + lanes[None, :]
    source = x + batch[None, :] * inputs + lanes[:, None]
    gate = tl.zeros((block_n, block_m), tl.float32)
    up = tl.zeros((block_n, block_m), tl.float32)
    announce(early)
    wait(early)
    for start in tl.range(0, inputs, block_k):
        row = tl.load(source + start, there, 0.0)
        gate = tl.dot(tl.load(here + start), row, gate, input_precision="ieee")
        up = tl.dot(tl.load(here + outputs * inputs + start), row, up, input_precision="ieee")
    kind = out.dtype.element_ty
    gate = gate.to(kind).to(tl.float32)
    y = (gate * tl.sigmoid(gate)).to(kind).to(tl.float32) * up.to(kind).to(tl.float32)
    tl.store(out + batch[None, :] * outputs + rows[:, None], y.to(kind), there)


@triton.jit
def _parts(
    x, weight, sums, count, outputs: tl.constexpr, inputs: tl.constexpr, share: tl.constexpr, early: tl.constexpr,
    pieces: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    """A product of few outputs whose inner sum is split into parts of `share` inputs."""
    rows = tl.program_id(0) * block_n + tl.arange(0, block_n)
    part = tl.program_id(1)
    batch = tl.program_id(2) * block_m + tl.arange(0, block_m)
    lanes = tl.arange(0, block_k)
    there = batch[None, :] < count
    lines = weight + rows * inputs + part * share
    here = lines[:, None] + lanes[None, :]
    source = x + batch[None, :] * inputs + lanes[:, None] + part * share
    total = tl.zeros((block_n, block_m), tl.float32)
    bytes_: tl.constexpr = share * weight.dtype.element_ty.primitive_bitwidth // 8
    announce(early)
    fetch_ahead(lines, bytes_, block_n, pieces, early)
    wait(early)
    for start in tl.range(0, share, block_k):
        row = tl.load(source + start, there, 0.0)
        total = tl.dot(tl.load(here + start), row, total, input_precision="ieee")
    tl.store(sums + (part * count + batch)[None, :] * outputs + rows[:, None], total, there)


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
    """Inputs per iteration: the largest power of two that divides them, at most `most`."""
    return min(inputs & -inputs, most)


def _one_row(
    x: Tensor, norm: Tensor | None, eps: float, weight: Tensor, bias: Tensor | None, extra: Tensor | None, ending: int
) -> Tensor | None:
    """The vector kernel; None with more rows, or if its tile does not divide the sizes."""
    inputs = weight.shape[1]
    outputs = weight.shape[0] // (2 if ending == SWIGLU.value else 1)
    block_n, most, warps, *_ = _row_tile(ending, outputs, inputs)
    block_k = _turn(inputs, most)
    if x.numel() != inputs or outputs % block_n or block_k < 32:
        return None
    out = torch.empty((*x.shape[:-1], outputs), dtype=x.dtype, device=x.device)
    _vector[(outputs // block_n,)](
        x, norm, weight, bias, extra, out, outputs, inputs, eps,
        norm is not None, bias is not None, ending, overlaps(), block_n, block_k,
        num_warps=warps, launch_pdl=overlaps(),
    )  # fmt: skip
    return out


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out = _one_row(x, None, 0.0, weight, bias, None, PLAIN.value)
    return F.linear(x, weight, bias) if out is None else out


def norm_linear(x: Normed, weight: Tensor) -> Tensor:
    out = _one_row(x.rows, x.weight, x.eps, weight, None, None, PLAIN.value)
    if out is not None:
        return out
    value = norm(x)
    tile = many_rows.tile_of(many_rows.LINEAR, weight.shape[1], value, weight)
    return F.linear(value, weight) if tile is None else many_rows.linear(value, weight, tile)


def norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    out = _one_row(x.rows, x.weight, x.eps, gate_up, None, None, SWIGLU.value)
    if out is not None:
        return out
    value = norm(x)
    out = _few_rows(value, gate_up)
    if out is not None:
        return out
    both = F.linear(value, gate_up)
    inner = gate_up.shape[0] // 2
    out = torch.empty((*value.shape[:-1], inner), dtype=value.dtype, device=value.device)
    _swiglu[(both.numel() // (2 * inner), triton.cdiv(inner, 1024))](
        both, out, inner, 1024, overlaps(), num_warps=4, launch_pdl=overlaps()
    )
    return out


def linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    x, residual = x.contiguous(), residual.contiguous()
    out = _one_row(x, None, 0.0, weight, None, residual, ADD.value)
    if out is not None:
        return Normed(out, norm, eps)
    sums = _shared_out(x, weight)
    if sums is not None:
        return add_norm(sums, residual, norm, eps)
    out = torch.addmm(residual.flatten(0, -2), x.flatten(0, -2), weight.T)
    return Normed(out.view(residual.shape), norm, eps)


def _few_rows(x: Tensor, gate_up: Tensor) -> Tensor | None:
    """The narrow gated kernel; None if the library is used."""
    inputs, outputs = gate_up.shape[1], gate_up.shape[0] // 2
    if (tile := many_rows.tile_of(many_rows.GATED, inputs, x, gate_up)) is not None:
        return many_rows.gated(x, gate_up, tile)
    count = x.numel() // inputs
    block_n, block_k, warps, stages, _ = _gate_tile(count)
    block_k = _turn(inputs, block_k)
    if count > MOST_ROWS or outputs % block_n or block_k < 32:
        return None
    block_m = _padded(count)
    stages = stages_in((2 * block_n + block_m) * block_k * x.element_size(), stages)
    out = torch.empty((*x.shape[:-1], outputs), dtype=x.dtype, device=x.device)
    _gated[(outputs // block_n, triton.cdiv(count, block_m))](
        x, gate_up, out, count, outputs, inputs, overlaps(), block_m, block_n, block_k,
        num_warps=warps, num_stages=stages, launch_pdl=overlaps(),
    )  # fmt: skip
    return out


def _shared_out(x: Tensor, weight: Tensor) -> Tensor | None:
    """The parts of a product [parts, count, outputs] float32; None if the library is used."""
    outputs, inputs = weight.shape
    if (tile := many_rows.tile_of(many_rows.ADDED, outputs, x, weight)) is not None:
        return many_rows.parted(x, weight, tile)
    count = x.numel() // inputs
    block_n, block_k, warps, stages, parts = ADD_TILE
    share = inputs // parts
    block_k = _turn(share, block_k)
    if count > MOST_ROWS or outputs % block_n or inputs % parts or block_k < 32:
        return None
    block_m = _padded(count)
    stages = stages_in((block_n + block_m) * block_k * x.element_size(), stages)
    sums = torch.empty((parts, count, outputs), dtype=torch.float32, device=x.device)
    # so that every thread prefetches a piece of a line
    pieces = max(1, 32 * warps // block_n) if outputs <= AHEAD else 0
    _parts[(outputs // block_n, parts, triton.cdiv(count, block_m))](
        x, weight, sums, count, outputs, inputs, share, overlaps(), pieces, block_m, block_n, block_k,
        num_warps=warps, num_stages=stages, launch_pdl=overlaps(),
    )  # fmt: skip
    return sums


def _padded(count: int) -> int:
    """Rows of a tile."""
    return min(max(16, triton.next_power_of_2(count)), WIDEST)


def _row_tile(ending: int, outputs: int, inputs: int) -> Tile:
    """For one row."""
    if ending == PLAIN.value and outputs >= 4096:
        return Tile(4, 1024)
    if ending == SWIGLU.value and inputs <= 1024:
        return Tile(2, 512)
    return Tile(2, 1024)


def _gate_tile(count: int) -> Tile:
    """For a few rows."""
    return Tile(32, 128, 2, 5) if count <= 16 else Tile(64, 64, 4, 5)
