"""Products of 17 to 256 rows whose weights are fetched before the previous kernel has ended (`prefetched.cu`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import c_int, c_uint32, c_uint64, c_void_p
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from omnitts_cli.kernels.cuda import CAPABILITY, attend
from omnitts_cli.kernels.cuda.nvrtc import CompileError, Kernel
from omnitts_cli.kernels.ops import Normed, Ops

SOURCE = Path(__file__).with_name("prefetched.cu")
LINEAR, GATED, ADDED = range(3)
LEAST, SIZES = 17, (32, 64, 128)
"""The least number of rows for these kernels, and the possible heights of a program's tile."""
BOX = 64
"""Inputs per box (one TMA copy)."""
MOST_SHARED = 227 * 1024
BFLOAT16, SWIZZLE_128, PROMOTE_256 = 9, 3, 3  # CU_TENSOR_MAP_...


class Tile(NamedTuple):
    """The part of a product that one program computes."""

    outputs: int  # of a program; gates and ups both count
    split: int  # programs that share the inputs
    cluster: int = 1  # how many of these programs add up their parts in a cluster
    pace: int = 100  # boxes of weights in flight before the previous kernel has ended
    ahead: int = 100 * 1024  # bytes of weights in shared memory at most
    rows_ahead: int = 64 * 1024  # bytes of rows in shared memory at most


Tiles = dict[tuple[int, int, int], Tile]
"""By kind, outputs and inputs."""
TILES: dict[int, Tiles] = {
    64: {
        (LINEAR, 4096, 1024): Tile(64, 2, 2, pace=3),
        (LINEAR, 2048, 1024): Tile(32, 2, 2),
        (GATED, 3072, 1024): Tile(96, 2, 2, pace=2),
        (ADDED, 1024, 3072): Tile(128, 8),
        (GATED, 6144, 2048): Tile(96, 1, pace=3),
        (ADDED, 2048, 2048): Tile(64, 4, 2),
    },
    128: {
        (GATED, 3072, 1024): Tile(96, 2, 2, pace=2, ahead=84 * 1024, rows_ahead=112 * 1024),
        (ADDED, 1024, 2048): Tile(64, 8, 2, pace=3, rows_ahead=128 * 1024),
        (GATED, 6144, 2048): Tile(96, 1, pace=3, ahead=84 * 1024, rows_ahead=112 * 1024),
        (ADDED, 2048, 2048): Tile(64, 4, 2, pace=3, ahead=64 * 1024, rows_ahead=128 * 1024),
    },
    256: {(ADDED, 1024, 2048): Tile(64, 4, 2, pace=3, ahead=64 * 1024, rows_ahead=128 * 1024)},
}
"""Tiles of products, by the largest number of rows. Chosen by timing the whole talker or predictor (benchmarks/LOG.md);
products that are not listed were not faster."""


class _Product(ctypes.Structure):
    """The kernel's parameter: `struct Product` of prefetched.cu, padded to a multiple of 64 bytes."""

    _fields_ = (
        ("x", c_uint64 * 16),
        ("weight", c_uint64 * 16),
        ("out", c_void_p),
        ("count", c_int),
        ("outputs", c_int),
        ("heights", c_int),
        ("padding", c_int * 11),
    )


@functools.lru_cache(4096)
def tensor_map(address: int, height: int, width: int, rows: int) -> ctypes.Array[c_uint64]:
    """A tensor map (TMA) for boxes of `rows` rows and 64 columns of a bf16 matrix."""
    driver = ctypes.CDLL("libcuda.so.1")
    memory = (ctypes.c_byte * 192)()
    at = ctypes.addressof(memory)
    at += -at % 64
    status = driver.cuTensorMapEncodeTiled(
        c_void_p(at), c_int(BFLOAT16), c_uint32(2), c_void_p(address),
        (c_uint64 * 2)(width, height), (c_uint64 * 1)(2 * width), (c_uint32 * 2)(BOX, rows), (c_uint32 * 2)(1, 1),
        c_int(0), c_int(SWIZZLE_128), c_int(PROMOTE_256), c_int(0),
    )  # fmt: skip
    if status:
        raise CompileError(f"cuTensorMapEncodeTiled failed with status {status}")
    return (c_uint64 * 16).from_buffer_copy(memory, at - ctypes.addressof(memory))


@functools.cache
def _kernel(kind: int, tile: Tile, inputs: int, rows: int) -> Kernel | None:
    """The compiled kernel, or None if it cannot be compiled."""
    boxes = inputs // BOX // tile.split
    x_box, w_box = 128 * rows, 128 * tile.outputs
    w_stages = min(boxes, max(2, tile.ahead // w_box))
    x_stages = min(boxes, max(2, tile.rows_ahead // x_box))
    teams, pieces = -(-rows // 64), tile.cluster
    inbox = (pieces - 1) * teams * 128 * (tile.outputs // pieces // 2) * 4
    rest = max(0, 8192 - x_box) + inbox + 16 * (w_stages + x_stages) + 8 + 1024
    w_stages = min(w_stages, (MOST_SHARED - rest - x_stages * x_box) // w_box)
    macros = {"KIND": kind, "WIDE": tile.outputs, "SPLIT": tile.split, "BOXES": boxes, "ROWS": rows}
    macros |= {"W_STAGES": w_stages, "X_STAGES": x_stages, "CLUSTER": tile.cluster, "PACE": tile.pace}
    shared = rest + w_stages * w_box + x_stages * x_box
    try:
        return Kernel(
            SOURCE, "prefetched", macros, "sm_90a", 0, 128 * teams + 64, shared, early=True, cluster=tile.cluster
        )
    except CompileError:
        return None


def rows_of(count: int) -> int:
    """The height of a program's tile."""
    return next((size for size in SIZES if size >= count), SIZES[-1])


def tile_of(kind: int, x: Tensor, weight: Tensor) -> Tile | None:
    """The tile for these operands, or None if these kernels do not apply."""
    outputs, inputs = weight.shape[0] // (2 if kind == GATED else 1), weight.shape[1]
    count = x.numel() // inputs
    level = next((most for most in TILES if most >= count), 0)
    tile = TILES[level].get((kind, outputs, inputs)) if level and count >= LEAST else None
    if tile is None or x.dtype != torch.bfloat16 or weight.dtype != x.dtype:
        return None
    aligned = x.is_contiguous() and weight.is_contiguous() and (x.data_ptr() | weight.data_ptr()) % 16 == 0
    return tile if aligned and _kernel(kind, tile, inputs, rows_of(count)) is not None else None


def _run(kind: int, x: Tensor, weight: Tensor, out: Tensor, tile: Tile) -> Tensor:
    inputs = weight.shape[1]
    count, outputs = x.numel() // inputs, weight.shape[0] // (2 if kind == GATED else 1)
    rows = rows_of(count)
    heights, kernel = -(-count // rows), _kernel(kind, tile, inputs, rows)
    assert kernel is not None, "tile_of has made it"
    box = tile.outputs // tile.cluster // 2 if kind == GATED else tile.outputs
    given = _Product(
        tensor_map(x.data_ptr(), count, inputs, rows),
        tensor_map(weight.data_ptr(), weight.shape[0], inputs, box),
        out.data_ptr(),
        count,
        outputs,
        heights,
    )
    kernel.launch(given, weight.shape[0] // tile.outputs * tile.split * heights)
    return out


def linear(x: Tensor, weight: Tensor, tile: Tile) -> Tensor:
    """x [..., inputs], weight [outputs, inputs] -> [..., outputs]."""
    return _run(LINEAR, x, weight, x.new_empty(*x.shape[:-1], weight.shape[0]), tile)


def gated(x: Tensor, gate_up: Tensor, tile: Tile) -> Tensor:
    """silu(x gate) * (x up): [..., outputs / 2]."""
    return _run(GATED, x, gate_up, x.new_empty(*x.shape[:-1], gate_up.shape[0] // 2), tile)


def parted(x: Tensor, weight: Tensor, tile: Tile) -> Tensor:
    """The parts of a product [parts, rows, outputs] float32."""
    count = x.numel() // x.shape[-1]
    out = torch.empty((tile.split // tile.cluster, count, weight.shape[0]), dtype=torch.float32, device=x.device)
    return _run(ADDED, x, weight, out, tile)


def with_prefetched(ops: Ops, add_norm: Callable[[Tensor, Tensor, Tensor, float], Normed]) -> Ops:
    """The same operations, with these kernels where they apply. `add_norm`: parts [parts, count, H], residual [..., H],
    norm [H], eps -> their sum, with that norm.
    """
    if torch.cuda.get_device_capability() != CAPABILITY:
        return ops

    def norm_linear(x: Normed, weight: Tensor) -> Tensor:
        tile = tile_of(LINEAR, x.rows, weight)
        return ops.norm_linear(x, weight) if tile is None else linear(ops.norm(x), weight, tile)

    def norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
        tile = tile_of(GATED, x.rows, gate_up)
        return ops.norm_swiglu(x, gate_up) if tile is None else gated(ops.norm(x), gate_up, tile)

    def linear_add(x: Tensor, weight: Tensor, residual: Tensor, weights: Tensor, eps: float) -> Normed:
        x, residual = x.contiguous(), residual.contiguous()
        tile = tile_of(ADDED, x, weight)
        if tile is None:
            return ops.linear_add(x, weight, residual, weights, eps)
        return add_norm(parted(x, weight, tile), residual, weights, eps)

    def attend_cached(
        qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor,
        keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor, width: int,
    ) -> Tensor:  # fmt: skip
        given = qkv, q_weight, k_weight, eps, cos, sin, keys, values, slots, positions
        if attend.suits(qkv, keys, positions):
            return attend.attend(*given)
        return ops.attend_cached(*given, width)

    products = {"norm_linear": norm_linear, "norm_swiglu": norm_swiglu, "linear_add": linear_add}
    return replace(ops, **products, attend_cached=attend_cached)
