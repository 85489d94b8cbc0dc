"""Products of the codec: convolutions, transposed convolutions and linears as one kind of matrix product.

A convolution reads `taps` columns, `dilation` apart, of a track that begins with the stream's history. So the product
reads the weights [outputs, taps * inputs] from start to end, and only the position in x changes from tap to tap. Bias,
residual, snake and gate are applied to the sum in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels import tiles
from omnitts_cli.kernels.cuda import codec_last, codec_tiles
from omnitts_cli.kernels.ops import Product, Unit
from omnitts_cli.kernels.tiles import codec_plan, halves_of
from omnitts_cli.kernels.triton.codec_math import operand, snake, transposed
from omnitts_cli.kernels.triton.codec_ready import only_compiling, run
from omnitts_cli.kernels.triton.shared_memory import stages_in

ACTIVATIONS = {"": 0, "snake": 1, "gelu": 2, "swiglu": 3}
SNAKE = tl.constexpr(1)
GELU = tl.constexpr(2)
SWIGLU = tl.constexpr(3)


@triton.jit(do_not_specialize=["count", "columns", "share", "parts"])
def _product(  # noqa: C901, PLR0915 - one kernel, whose branches are decided at compile time
    x, weight, bias, scale, inverse, residual, before, out, sums, counts,
    x_stride, residual_stride, before_stride, out_stride, count, columns, outputs, inputs, width, hop, share, parts,
    eps: tl.constexpr, turns: tl.constexpr, normed: tl.constexpr, biased: tl.constexpr,
    activation: tl.constexpr, adds: tl.constexpr, keeps: tl.constexpr, gives: tl.constexpr, shared: tl.constexpr,
    precision: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    """`turns` per tap, or 0 with a single tap, so that products of any width share one compiled kernel."""
    kind = weight.dtype.element_ty
    n = tl.program_id(0) * block_n + tl.arange(0, block_n)
    m = tl.program_id(1) * block_m + tl.arange(0, block_m)
    k = tl.arange(0, block_k)
    known, there = n < outputs, m < count
    batch, column = m // columns, m % columns
    rows = x + (batch * x_stride + column * inputs)[:, None] + k[None, :]
    lines = weight + n[:, None] * width + k[None, :]
    total = tl.zeros((block_m, block_n), tl.float32)
    second = tl.zeros((block_m, block_n), tl.float32)
    squares = tl.zeros((block_m, block_k), tl.float32)
    first, last = 0, width // block_k
    if shared:
        first = tl.program_id(2) * share
        last = tl.minimum(first + share, last)
    for turn in tl.range(first, last):
        if turns:
            at = (turn // turns) * hop + (turn % turns) * block_k
        else:
            at = turn * block_k
        part = tl.load(rows + at, there[:, None], 0.0)
        if normed:
            squares += part * part
        part = operand(part, kind)
        tile = tl.load(lines + turn * block_k, known[:, None], 0.0)
        total = tl.dot(part, tl.trans(tile), total, input_precision=precision)
        if activation == SWIGLU:
            tile = tl.load(lines + turn * block_k + outputs * width, known[:, None], 0.0)
            second = tl.dot(part, tl.trans(tile), second, input_precision=precision)
    if shared:
        # the last program to arrive adds the parts in a fixed order, so the sum always has the same bits
        tiles = tl.num_programs(0) * tl.num_programs(1)
        own = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        lane = tl.arange(0, block_m)[:, None] * block_n + tl.arange(0, block_n)[None, :]
        tl.store(sums + (tl.program_id(2) * tiles + own) * (block_m * block_n) + lane, total)
        tl.debug_barrier()
        if tl.atomic_add(counts + own, 1, sem="acq_rel") != parts - 1:
            return
        total = tl.zeros((block_m, block_n), tl.float32)
        for one in tl.range(0, parts):
            total += tl.load(sums + (one * tiles + own) * (block_m * block_n) + lane, cache_modifier=".cg")
        tl.store(counts + own, 0)
    if normed:
        norm = tl.rsqrt(tl.sum(squares, 1) / inputs + eps)[:, None]
        total *= norm
        second *= norm
    if biased:
        total += tl.load(bias + n, known, 0.0)[None, :]
    place = (column * outputs)[:, None] + n[None, :]
    inside = there[:, None] & known[None, :]
    if adds:
        total += tl.load(residual + (batch * residual_stride)[:, None] + place, inside, 0.0)
    if keeps:
        tl.store(before + (batch * before_stride)[:, None] + place, operand(total, before.dtype.element_ty), inside)
    if gives:
        if activation == SNAKE:
            total = snake(total, tl.load(scale + n, known, 0.0)[None, :], tl.load(inverse + n, known, 0.0)[None, :])
        if activation == GELU:
            total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
        if activation == SWIGLU:
            if biased:
                second += tl.load(bias + outputs + n, known, 0.0)[None, :]
            total = total * tl.sigmoid(total) * second
        tl.store(out + (batch * out_stride)[:, None] + place, operand(total, kind), inside)


@triton.jit
def _ended(
    y, first: tl.constexpr, count: tl.constexpr, bias, scale, inverse, residual, out, place, placed, there,
    keeps: tl.constexpr, kind: tl.constexpr,
):  # fmt: skip
    """Bias, residual and snake of `count` channels from `first` on, and the store."""
    n = first + tl.arange(0, count)
    kept = residual + place[:, None] + n[None, :]
    y += tl.load(bias + n)[None, :]
    y += tl.load(kept, there[:, None], 0.0)
    if keeps:
        tl.store(kept, operand(y, residual.dtype.element_ty), there[:, None])
    y = snake(y, tl.load(scale + n)[None, :], tl.load(inverse + n)[None, :])
    tl.store(out + placed[:, None] + n[None, :], operand(y, kind), there[:, None])


@triton.jit(do_not_specialize=["count", "columns"])
def _unit(
    x, weight, bias, scale, inverse, point, point_bias, next_scale, next_inverse, residual, out,
    x_stride, residual_stride, out_stride, count, columns, hop,
    taps: tl.constexpr, turns: tl.constexpr, keeps: tl.constexpr, precision: tl.constexpr,
    block_m: tl.constexpr, block_k: tl.constexpr, large: tl.constexpr, small: tl.constexpr,
):  # fmt: skip
    """All channels in one program: `large`, a power of two, and `small`, a power of two or 0."""
    kind = weight.dtype.element_ty
    inputs: tl.constexpr = large + small
    width: tl.constexpr = taps * inputs
    m = tl.program_id(0) * block_m + tl.arange(0, block_m)
    k = tl.arange(0, block_k)
    n = tl.arange(0, large)
    there = m < count
    batch, column = m // columns, m % columns
    rows = x + (batch * x_stride + column * inputs)[:, None] + k[None, :]
    lines = weight + n[:, None] * width + k[None, :]
    total = tl.zeros((block_m, large), tl.float32)
    if small:
        n_small = large + tl.arange(0, small)
        lines_small = weight + n_small[:, None] * width + k[None, :]
        total_small = tl.zeros((block_m, small), tl.float32)
    for turn in tl.range(0, taps * turns):
        part = tl.load(rows + (turn // turns) * hop + (turn % turns) * block_k, there[:, None], 0.0)
        total = tl.dot(part, tl.trans(tl.load(lines + turn * block_k)), total, input_precision=precision)
        if small:
            tile = tl.load(lines_small + turn * block_k)
            total_small = tl.dot(part, tl.trans(tile), total_small, input_precision=precision)
    place, placed = batch * residual_stride + column * inputs, batch * out_stride + column * inputs
    total += tl.load(bias + n)[None, :]
    between = operand(snake(total, tl.load(scale + n)[None, :], tl.load(inverse + n)[None, :]), kind)
    y = tl.dot(between, transposed(point, 0, large, inputs, 0, large), input_precision=precision)
    if small:
        total_small += tl.load(bias + n_small)[None, :]
        total_small = snake(total_small, tl.load(scale + n_small)[None, :], tl.load(inverse + n_small)[None, :])
        between_small = operand(total_small, kind)
        y = tl.dot(between_small, transposed(point, 0, large, inputs, large, small), y, input_precision=precision)
    _ended(
        y, 0, large, point_bias, next_scale, next_inverse, residual, out, place, placed, there, keeps, kind
    )  # fmt: skip
    if small:
        y = tl.dot(between, transposed(point, large, small, inputs, 0, large), input_precision=precision)
        y = tl.dot(between_small, transposed(point, large, small, inputs, large, small), y, input_precision=precision)
        _ended(
            y, large, small, point_bias, next_scale, next_inverse, residual, out, place, placed, there, keeps, kind
        )  # fmt: skip


def precision(kind: torch.dtype) -> str:
    """The precision of products of float32 operands, as set in torch."""
    return "tf32" if kind == torch.float32 and torch.get_float32_matmul_precision() != "highest" else "ieee"


# ---- each as in `CodecOps`; kernels/choose.py says when which one runs. `ordered`: every sum is added in one order,
# however many streams and columns `x` has


def product(
    x: Tensor, layer: Product, residual: Tensor | None = None, before: Tensor | None = None, out: Tensor | None = None,
    ordered: bool = False,
) -> None:  # fmt: skip
    rows, length, inputs = x.shape
    columns = length - (layer.taps - 1) * layer.dilation
    gated, normed, kind = layer.activation == "swiglu", layer.eps is not None, layer.weight.dtype
    outputs, width = layer.weight.shape[0] // (2 if gated else 1), layer.weight.shape[1]
    count, halves = rows * columns, kind.itemsize == 2
    plan = codec_plan(count, outputs, inputs, width, normed or gated, ordered, layer.counts is not None, halves)
    assert plan is not None
    (block_m, block_n, block_k, warps, stages), share, parts = plan
    stages = stages_in((block_m + block_n * (2 if gated else 1)) * block_k * kind.itemsize, stages)
    grid = (triton.cdiv(outputs, block_n), triton.cdiv(count, block_m))
    sums = torch.empty(parts * grid[0] * grid[1] * block_m * block_n, device=x.device) if parts > 1 else None

    def stride(tensor: Tensor | None) -> int:
        return 0 if tensor is None else tensor.stride(0)

    run(
        _product, (*grid, parts),
        x, layer.weight, layer.bias, layer.scale, layer.inverse, residual, before, out, sums, layer.counts,
        stride(x), stride(residual), stride(before), stride(out), count, columns, outputs, inputs, width,
        layer.dilation * inputs, share, parts, layer.eps, inputs // block_k if layer.taps > 1 else 0, normed,
        layer.bias is not None, ACTIVATIONS[layer.activation],
        residual is not None, before is not None, out is not None, parts > 1, precision(kind),
        block_m, block_n, block_k, num_warps=warps, num_stages=stages,
    )  # fmt: skip


def kept_product(
    x: Tensor, layer: Product, residual: Tensor | None = None, before: Tensor | None = None, out: Tensor | None = None,
    ordered: bool = False,
) -> None:  # fmt: skip
    """The kernels of `codec_tiles`."""
    codec_tiles.product(x, layer, residual, before, out, only_compiling())


def residual_unit(
    x: Tensor, conv: Product, point: Product, residual: Tensor, keep: bool, out: Tensor, ordered: bool = False
) -> None:
    """A whole unit in one kernel, which adds in the same order as two products."""
    rows, columns, inputs = residual.shape
    count, kind = rows * columns, conv.weight.dtype
    large, small = halves_of(inputs)
    block_m, block_k, warps, stages = tiles.UNIT_TILES[large]
    stages = stages_in((block_m + inputs) * block_k * kind.itemsize, stages)
    run(
        _unit, (triton.cdiv(count, block_m),),
        x, conv.weight, conv.bias, conv.scale, conv.inverse, point.weight, point.bias, point.scale, point.inverse,
        residual, out, x.stride(0), residual.stride(0), out.stride(0), count, columns, conv.dilation * inputs,
        conv.taps, inputs // block_k, keep, precision(kind), block_m, block_k, large, small,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip


def kept_unit(
    x: Tensor, conv: Product, point: Product, residual: Tensor, keep: bool, out: Tensor, ordered: bool = False
) -> None:
    """The kernels of `codec_tiles`."""
    codec_tiles.residual_unit(x, conv, point, residual, keep, out, only_compiling())


def two_products(
    product: Callable[..., None], x: Tensor, conv: Product, point: Product, residual: Tensor, keep: bool, out: Tensor,
    ordered: bool = False,
) -> None:  # fmt: skip
    between = torch.empty(residual.shape, dtype=conv.weight.dtype, device=x.device)
    product(x, conv, None, None, between)
    product(between, point, residual, residual if keep else None, out)


def close(
    product: Callable[..., None], x: Tensor, rise: Product, tracks: Sequence[Tensor], units: Sequence[Unit],
    weight: Tensor, bias: Tensor, sound: Tensor, ordered: bool = False,
) -> bool:  # fmt: skip
    """The kernels of `codec_last`."""
    rows, columns = sound.shape
    residual = torch.empty(rows, columns, weight.shape[1], dtype=x.dtype, device=x.device)
    product(x, rise, None, residual.view(rows, x.shape[1] - rise.taps + 1, -1))
    parts = codec_last.prepared(rise, units, weight)
    kernels = codec_last.compiled(sound.get_device())
    assert kernels is not None
    if not only_compiling():
        programs = codec_tiles.processors(sound.get_device())
        codec_last.launch(kernels, programs, tracks, parts, residual, weight, bias, sound)
    return True
