"""Products of 65 to 256 rows on Hopper, whose operands the copy engine fetches (TMA).

Used where they made the whole talker or predictor faster than the narrow kernels or the library do; tiles were chosen
in the same way, see benchmarks/LOG.md. More rows are left to the library, which then runs at 780 TFLOP/s.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from omnitts_cli.kernels.ops import Normed
from omnitts_cli.kernels.tiles import ADDED, GATED, LINEAR, Tile, many_rows_tile
from omnitts_cli.kernels.triton.codec_ready import run
from omnitts_cli.kernels.triton.norms import add_norm, norm
from omnitts_cli.kernels.triton.overlap import announce, overlaps, wait


@triton.jit
def _product(
    x, weight, out, count, outputs, share: tl.constexpr,
    gated: tl.constexpr, early: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    """`share`: inputs of a part; the parts [parts, count, outputs] of one product are programs of their own."""
    # programs that read the same weights are neighbours
    start, first, part = tl.program_id(0) * block_m, tl.program_id(1) * block_n, tl.program_id(2)
    row = start + tl.arange(0, block_m)
    column = first + tl.arange(0, block_n)
    total = tl.zeros((block_m, block_n), tl.float32)
    second = tl.zeros((block_m, block_n), tl.float32)
    announce(early)
    wait(early)
    for turn in tl.range(0, share, block_k):
        at = part * share + turn
        inputs = x.load([start, at])
        total = tl.dot(inputs, tl.trans(weight.load([first, at])), total)
        if gated:
            second = tl.dot(inputs, tl.trans(weight.load([first + outputs, at])), second)
    kind = out.dtype.element_ty
    if gated:
        gate = total.to(kind).to(tl.float32)
        total = (gate * tl.sigmoid(gate)).to(kind).to(tl.float32) * second.to(kind).to(tl.float32)
    place = (part * count + row).to(tl.int64)[:, None] * outputs + column[None, :]
    tl.store(out + place, total.to(kind), (row < count)[:, None])


def _run(x: Tensor, weight: Tensor, out: Tensor, outputs: int, tile: Tile) -> Tensor:
    flat = x.view(-1, x.shape[-1])
    count, inputs = flat.shape
    run(
        _product, (triton.cdiv(count, tile.rows), outputs // tile.outputs, tile.parts),
        TensorDescriptor.from_tensor(flat, [tile.rows, tile.inputs]),
        TensorDescriptor.from_tensor(weight, [tile.outputs, tile.inputs]),
        out, count, outputs, inputs // tile.parts, outputs < weight.shape[0], overlaps(),
        tile.rows, tile.outputs, tile.inputs, num_warps=tile.warps, num_stages=tile.stages, launch_pdl=overlaps(),
    )  # fmt: skip
    return out


def linear(x: Tensor, weight: Tensor, tile: Tile) -> Tensor:
    """x [..., inputs], weight [outputs, inputs] -> [..., outputs]."""
    return _run(x, weight, x.new_empty(*x.shape[:-1], weight.shape[0]), weight.shape[0], tile)


def gated(x: Tensor, gate_up: Tensor, tile: Tile) -> Tensor:
    """silu(x gate) * (x up): [..., outputs / 2]."""
    outputs = gate_up.shape[0] // 2
    return _run(x, gate_up, x.new_empty(*x.shape[:-1], outputs), outputs, tile)


def parted(x: Tensor, weight: Tensor, tile: Tile) -> Tensor:
    """The parts of a product [parts, rows, outputs] float32."""
    count, outputs = x.numel() // x.shape[-1], weight.shape[0]
    out = torch.empty((tile.parts, count, outputs), dtype=torch.float32, device=x.device)
    return _run(x, weight, out, outputs, tile)


def _tile(kind: int, x: Tensor, weight: Tensor) -> Tile:
    tile = many_rows_tile(kind, x.numel() // x.shape[-1], *weight.shape)
    assert tile is not None
    return tile


# ---- each as in `Ops`; kernels/choose.py says when they run


def norm_linear(x: Normed, weight: Tensor) -> Tensor:
    value = norm(x)
    return linear(value, weight, _tile(LINEAR, value, weight))


def norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
    value = norm(x)
    return gated(value, gate_up, _tile(GATED, value, gate_up))


def linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
    x = x.contiguous()
    return add_norm(parted(x, weight, _tile(ADDED, x, weight)), residual.contiguous(), norm, eps)
