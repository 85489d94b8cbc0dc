"""Large products of the codec on Hopper, whose operands the copy engine fetches (TMA).

Their tiles are twice as high as in codec_products, need no registers for addresses, and are loaded further ahead:
the convolutions of 768 and 384 channels run at 680 and 610 TFLOP/s instead of 400 and 370. A tile lies within one
stream. Sums are added in the order of codec_products, so they have the same bits.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from omnitts_cli.kernels.ops import Product
from omnitts_cli.kernels.triton.codec_math import operand, snake, transposed
from omnitts_cli.kernels.triton.codec_ready import run
from omnitts_cli.kernels.triton.shared_memory import stages_in

HOPPER = 90
TILES = ((128, 128, 64, 8, 4), (64, 128, 64, 4, 4))
"""Tiles: columns, outputs, inputs per iteration, warps, stages. The second is for calls whose columns the first does
not divide. Measured at 16 frames of 32 streams, see benchmarks/LOG.md."""
LARGE_TILES = ((128, 256, 64, 8, 4), (256, 128, 64, 8, 4))
"""The same for calls of many columns; they fetch a quarter less."""
UNIT_TILES = {64: (128, 32, 4, 4), 128: (64, 64, 4, 3)}
"""Tiles of a whole residual unit, by the larger part of its channels: columns, inputs per iteration, warps, stages."""
ENOUGH = 264
"""The least number of programs for these kernels: two per multiprocessor ..."""
ENOUGH_SMALL = 132
"""... or one per multiprocessor, with the second tile."""
ENOUGH_LARGE = 660
"""The least number of programs for the large tiles: five per multiprocessor."""
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


@triton.jit
def _ended(
    y, first: tl.constexpr, count: tl.constexpr, bias, scale, inverse, residual, out, place,
    keeps: tl.constexpr, kind: tl.constexpr,
):  # fmt: skip
    """Bias, residual and snake of `count` channels from `first` on, and the store."""
    n = first + tl.arange(0, count)
    kept = residual + place[:, None] + n[None, :]
    y += tl.load(bias + n)[None, :]
    y += tl.load(kept)
    if keeps:
        tl.store(kept, operand(y, residual.dtype.element_ty))
    y = snake(y, tl.load(scale + n)[None, :], tl.load(inverse + n)[None, :])
    tl.store(out + place[:, None] + n[None, :], operand(y, kind))


@triton.jit
def _unit(
    x, weight, weight_small, bias, scale, inverse, point, point_bias, next_scale, next_inverse, residual, out,
    pitch, residual_stride, out_stride, columns, hop,
    taps: tl.constexpr, turns: tl.constexpr, keeps: tl.constexpr,
    block_m: tl.constexpr, block_k: tl.constexpr, large: tl.constexpr, small: tl.constexpr,
):  # fmt: skip
    """A residual unit, all channels in one program: `large`, a power of two, and `small`, another."""
    kind = out.dtype.element_ty
    inputs: tl.constexpr = large + small
    start = tl.program_id(0) * block_m
    batch, column = start // columns, start % columns
    line = batch * pitch + column
    n = tl.arange(0, large)
    n_small = large + tl.arange(0, small)
    total = tl.zeros((block_m, large), tl.float32)
    total_small = tl.zeros((block_m, small), tl.float32)
    for turn in tl.range(0, taps * turns):
        part = x.load([line + (turn // turns) * hop, (turn % turns) * block_k])
        total = tl.dot(part, tl.trans(weight.load([0, turn * block_k])), total)
        total_small = tl.dot(part, tl.trans(weight_small.load([large, turn * block_k])), total_small)
    place = (column + tl.arange(0, block_m)) * inputs
    residual += batch.to(tl.int64) * residual_stride
    out += batch.to(tl.int64) * out_stride
    total += tl.load(bias + n)[None, :]
    between = operand(snake(total, tl.load(scale + n)[None, :], tl.load(inverse + n)[None, :]), kind)
    total_small += tl.load(bias + n_small)[None, :]
    total_small = snake(total_small, tl.load(scale + n_small)[None, :], tl.load(inverse + n_small)[None, :])
    between_small = operand(total_small, kind)
    y = tl.dot(between, transposed(point, 0, large, inputs, 0, large))
    y = tl.dot(between_small, transposed(point, 0, large, inputs, large, small), y)
    _ended(y, 0, large, point_bias, next_scale, next_inverse, residual, out, place, keeps, kind)
    y = tl.dot(between, transposed(point, large, small, inputs, 0, large))
    y = tl.dot(between_small, transposed(point, large, small, inputs, large, small), y)
    _ended(y, large, small, point_bias, next_scale, next_inverse, residual, out, place, keeps, kind)


@functools.cache
def possible() -> bool:
    """Whether this card has the copy engine that these kernels need."""
    if triton.knobs.runtime.interpret:
        return True
    arch = triton.runtime.driver.active.get_current_target().arch
    return isinstance(arch, int) and arch == HOPPER


def _fetched(x: Tensor, weight: Tensor) -> bool:
    """Whether the copy engine can fetch these operands."""
    halves = x.dtype == weight.dtype == torch.float16
    return halves and x.is_contiguous() and (x.data_ptr() | weight.data_ptr()) % 16 == 0 and possible()


def _lined(x: Tensor, block: list[int]) -> TensorDescriptor:
    """x [B, length, inputs] as rows, all columns of all streams one after the other."""
    flat = x.flatten(0, 1)
    return TensorDescriptor(flat, list(flat.shape), list(flat.stride()), block)


def _tile(rows: int, columns: int, inputs: int, outputs: int, adds: bool) -> tuple[int, int, int, int, int] | None:
    """The tile for a product of `columns` columns in each of `rows` streams; None if there is none. `adds`: a residual
    is added; for such products the large tiles have not been measured in an engine."""

    def programs(tile: tuple[int, int, int, int, int]) -> int:
        suits = not (columns % tile[0] or outputs % tile[1] or inputs % tile[2])
        return rows * columns // tile[0] * (outputs // tile[1]) if suits else 0

    for tile in () if adds else LARGE_TILES:
        if programs(tile) >= ENOUGH_LARGE:
            return tile
    for tile, enough in zip(TILES, (ENOUGH, ENOUGH_SMALL), strict=True):
        if found := programs(tile):
            return tile if found >= enough else None
    return None


def product(x: Tensor, layer: Product, residual: Tensor | None, before: Tensor | None, out: Tensor | None) -> bool:
    """As in `CodecOps`; False if these kernels do not suit."""
    rows, length, inputs = x.shape
    columns, outputs = length - (layer.taps - 1) * layer.dilation, layer.weight.shape[0]
    if layer.bias is None or layer.activation not in ACTIVATIONS or not _fetched(x, layer.weight):
        return False
    if layer.taps == 1 and all(one is None or one.is_contiguous() for one in (residual, before, out)):
        rows, length, columns = 1, rows * length, rows * columns  # streams as one
    tile = _tile(rows, columns, inputs, outputs, residual is not None)
    if tile is None:
        return False
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
    return True


def residual_unit(x: Tensor, conv: Product, point: Product, residual: Tensor, keep: bool, out: Tensor) -> bool:
    """As in `CodecOps`; False if this kernel does not suit."""
    rows, columns, inputs = residual.shape
    large = 1 << inputs.bit_length() - 1
    small = inputs - large
    if large not in UNIT_TILES or small != large // 2:
        return False
    block_m, block_k, warps, stages = UNIT_TILES[large]
    if columns % block_m or rows * columns // block_m < ENOUGH or not _fetched(x, conv.weight):
        return False
    stages = stages_in((block_m + inputs) * block_k * 2, stages)
    run(
        _unit, (rows * columns // block_m,),
        _lined(x, [block_m, block_k]), TensorDescriptor.from_tensor(conv.weight, [large, block_k]),
        TensorDescriptor.from_tensor(conv.weight, [small, block_k]), conv.bias, conv.scale, conv.inverse,
        point.weight, point.bias, point.scale, point.inverse, residual, out,
        x.shape[1], residual.stride(0), out.stride(0), columns, conv.dilation,
        conv.taps, inputs // block_k, keep, block_m, block_k, large, small,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return True
