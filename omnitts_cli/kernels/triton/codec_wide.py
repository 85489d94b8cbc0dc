"""Large products of the codec on Hopper, whose operands the copy engine fetches (TMA).

Their tiles are twice as high as in codec_products, need no registers for addresses, and are loaded further ahead:
the convolutions of 768 and 384 channels run at 680 and 610 TFLOP/s instead of 400 and 370. A tile lies within one
stream. Sums are added in the order of codec_products, so they have the same bits.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from omnitts_cli.kernels.ops import Product
from omnitts_cli.kernels.tiles import wide_tile
from omnitts_cli.kernels.triton.codec_math import operand, snake
from omnitts_cli.kernels.triton.codec_ready import run
from omnitts_cli.kernels.triton.shared_memory import stages_in

ACTIVATIONS = {"": 0, "snake": 1, "gelu": 2}
SNAKE = tl.constexpr(1)
GELU = tl.constexpr(2)


@triton.jit
def _product(
    x, weight, bias, scale, inverse, residual, before, out,
    pitch, residual_stride, before_stride, out_stride, columns, outputs, hop,
    taps: tl.constexpr, turns: tl.constexpr, activation: tl.constexpr, adds: tl.constexpr, keeps: tl.constexpr,
    gives: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * block_n
    start = tl.program_id(1) * block_m
    batch, column = start // columns, start % columns
    line = batch * pitch + column
    total = tl.zeros((block_m, block_n), tl.float32)
    for turn in tl.range(0, taps * turns):
        part = x.load([line + (turn // turns) * hop, (turn % turns) * block_k])
        tile = weight.load([first, turn * block_k])
        total = tl.dot(part, tl.trans(tile), total)
    n = first + tl.arange(0, block_n)
    known = n < outputs
    total += tl.load(bias + n, known, 0.0)[None, :]
    place = (column + tl.arange(0, block_m))[:, None] * outputs + n[None, :]
    if adds:
        total += tl.load(residual + batch.to(tl.int64) * residual_stride + place, known[None, :], 0.0)
    if keeps:
        tl.store(
            before + batch.to(tl.int64) * before_stride + place, operand(total, before.dtype.element_ty), known[None, :]
        )
    if gives:
        if activation == SNAKE:
            total = snake(total, tl.load(scale + n, known, 0.0)[None, :], tl.load(inverse + n, known, 0.0)[None, :])
        if activation == GELU:
            total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
        kind = out.dtype.element_ty
        tl.store(out + batch.to(tl.int64) * out_stride + place, operand(total, kind), known[None, :])


def _lined(x: Tensor, block: list[int]) -> TensorDescriptor:
    """x [B, length, inputs] as rows, all columns of all streams one after the other."""
    flat = x.flatten(0, 1)
    return TensorDescriptor(flat, list(flat.shape), list(flat.stride()), block)


# ---- as in `CodecOps`; kernels/choose.py says when it runs. Sums have one order in any case


def product(
    x: Tensor, layer: Product, residual: Tensor | None = None, before: Tensor | None = None, out: Tensor | None = None,
    ordered: bool = False,
) -> None:  # fmt: skip
    rows, length, inputs = x.shape
    columns, outputs = length - (layer.taps - 1) * layer.dilation, layer.weight.shape[0]
    if layer.taps == 1 and all(one is None or one.is_contiguous() for one in (residual, before, out)):
        rows, length, columns = 1, rows * length, rows * columns  # streams as one
    tile = wide_tile(rows, columns, inputs, outputs)
    assert tile is not None
    block_m, block_n, block_k, warps, stages = tile
    stages = stages_in((block_m + block_n) * block_k * 2, stages)

    def stride(tensor: Tensor | None) -> int:
        return 0 if tensor is None else tensor.stride(0)

    run(
        _product, (outputs // block_n, rows * columns // block_m),
        _lined(x, [block_m, block_k]), TensorDescriptor.from_tensor(layer.weight, [block_n, block_k]),
        layer.bias, layer.scale, layer.inverse, residual, before, out,
        length, stride(residual), stride(before), stride(out), columns, outputs, layer.dilation,
        layer.taps, inputs // block_k, ACTIVATIONS[layer.activation], residual is not None, before is not None,
        out is not None, block_m, block_n, block_k, num_warps=warps, num_stages=stages,
    )  # fmt: skip
