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

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels.cuda import prefetched
from omnitts_cli.kernels.ops import Normed
from omnitts_cli.kernels.tiles import ADDED, GATED, LINEAR, few_tile, row_tile
from omnitts_cli.kernels.triton.norms import add_norm, norm
from omnitts_cli.kernels.triton.overlap import announce, fetch_ahead, overlaps, wait
from omnitts_cli.kernels.triton.shared_memory import stages_in

PLAIN = tl.constexpr(0)
ADD = tl.constexpr(1)
SWIGLU = tl.constexpr(2)

WIDEST = 64
"""The most rows of a tile. More rows take several tiles, and all but the first read weights from the L2 cache."""
AHEAD = 1024
"""The most outputs for which a split product prefetches its weights while the previous kernel finishes. With more, the
prefetch delays loads that are needed sooner."""


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


def _one_row(
    x: Tensor, norm: Tensor | None, eps: float, weight: Tensor, bias: Tensor | None, extra: Tensor | None, ending: int
) -> Tensor:
    """The vector kernel."""
    inputs, gated = weight.shape[1], ending == SWIGLU.value
    outputs = weight.shape[0] // (2 if gated else 1)
    tile = row_tile(GATED if gated else LINEAR if ending == PLAIN.value else ADDED, outputs, inputs)
    assert tile is not None
    out = torch.empty((*x.shape[:-1], outputs), dtype=x.dtype, device=x.device)
    _vector[(outputs // tile.outputs,)](
        x, norm, weight, bias, extra, out, outputs, inputs, eps,
        norm is not None, bias is not None, ending, overlaps(), tile.outputs, tile.inputs,
        num_warps=tile.warps, launch_pdl=overlaps(),
    )  # fmt: skip
    return out


# ---- each as in `Ops`; kernels/choose.py says when which one runs


def row_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return _one_row(x, None, 0.0, weight, bias, None, PLAIN.value)


def row_norm_linear(x: Normed, weight: Tensor) -> Tensor:
    return _one_row(x.rows, x.weight, x.eps, weight, None, None, PLAIN.value)


def row_norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    return _one_row(x.rows, x.weight, x.eps, gate_up, None, None, SWIGLU.value)


def row_linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    x, residual = x.contiguous(), residual.contiguous()
    return Normed(_one_row(x, None, 0.0, weight, None, residual, ADD.value), norm, eps)


def early_norm_linear(x: Normed, weight: Tensor) -> Tensor:
    return prefetched.linear(norm(x), weight)


def early_norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    return prefetched.gated(norm(x), gate_up)


def early_linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    return add_norm(prefetched.parted(x.contiguous(), weight), residual.contiguous(), norm, eps)


def norm_linear(x: Normed, weight: Tensor) -> Tensor:
    return F.linear(norm(x), weight)


def norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    return swiglu(norm_linear(x, gate_up))


def swiglu(both: Tensor) -> Tensor:
    inner = both.shape[-1] // 2
    out = torch.empty((*both.shape[:-1], inner), dtype=both.dtype, device=both.device)
    _swiglu[(both.numel() // (2 * inner), triton.cdiv(inner, 1024))](
        both, out, inner, 1024, overlaps(), num_warps=4, launch_pdl=overlaps()
    )
    return out


def linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    x, residual = x.contiguous(), residual.contiguous()
    out = torch.addmm(residual.flatten(0, -2), x.flatten(0, -2), weight.T)
    return Normed(out.view(residual.shape), norm, eps)


def few_norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    value, (both, inputs) = norm(x), gate_up.shape
    count, outputs = value.numel() // inputs, both // 2
    tile = few_tile(GATED, count, outputs, inputs)
    assert tile is not None
    block_m = padded(count)
    stages = stages_in((2 * tile.outputs + block_m) * tile.inputs * value.element_size(), tile.stages)
    out = torch.empty((*value.shape[:-1], outputs), dtype=value.dtype, device=value.device)
    _gated[(outputs // tile.outputs, triton.cdiv(count, block_m))](
        value, gate_up, out, count, outputs, inputs, overlaps(), block_m, tile.outputs, tile.inputs,
        num_warps=tile.warps, num_stages=stages, launch_pdl=overlaps(),
    )  # fmt: skip
    return out


def few_linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    x, (outputs, inputs) = x.contiguous(), weight.shape
    count = x.numel() // inputs
    tile = few_tile(ADDED, count, outputs, inputs)
    assert tile is not None
    block_m, share = padded(count), inputs // tile.parts
    stages = stages_in((tile.outputs + block_m) * tile.inputs * x.element_size(), tile.stages)
    sums = torch.empty((tile.parts, count, outputs), dtype=torch.float32, device=x.device)
    # so that every thread prefetches a piece of a line
    pieces = max(1, 32 * tile.warps // tile.outputs) if outputs <= AHEAD else 0
    _parts[(outputs // tile.outputs, tile.parts, triton.cdiv(count, block_m))](
        x, weight, sums, count, outputs, inputs, share, overlaps(), pieces, block_m, tile.outputs, tile.inputs,
        num_warps=tile.warps, num_stages=stages, launch_pdl=overlaps(),
    )  # fmt: skip
    return add_norm(sums, residual.contiguous(), norm, eps)


def padded(count: int) -> int:
    """Rows of a tile."""
    return min(max(16, triton.next_power_of_2(count)), WIDEST)
