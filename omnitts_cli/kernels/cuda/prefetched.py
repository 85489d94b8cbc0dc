"""Products of 17 to 256 rows whose weights are fetched before the previous kernel has ended (`prefetched.cu`)."""

import ctypes
import functools
from ctypes import c_int, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from omnitts_cli.kernels.cuda.nvrtc import CompileError, Kernel
from omnitts_cli.kernels.tiles import ADDED, GATED, LINEAR

SOURCE = Path(__file__).with_name("prefetched.cu")
SIZES = (32, 64, 128)
"""Possible heights of a program's tile."""
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
        ("x", c_uint64 * 16), ("weight", c_uint64 * 16), ("out", c_void_p), ("count", c_int), ("outputs", c_int),
        ("heights", c_int), ("padding", c_int * 11),
    )  # fmt: skip


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


def tile_of(kind: int, rows: int, outputs: int, inputs: int) -> Tile | None:
    """The tile for a product, or None if these kernels do not apply. `outputs`: gates and ups both count."""
    level = next((most for most in TILES if most >= rows), 0)
    return TILES[level].get((kind, outputs // (2 if kind == GATED else 1), inputs)) if level else None


def compiled(kind: int, rows: int, outputs: int, inputs: int) -> bool:
    """Whether the kernel of such a product has been compiled, or can be."""
    tile = tile_of(kind, rows, outputs, inputs)
    return tile is not None and _kernel(kind, tile, inputs, rows_of(rows)) is not None


def _run(kind: int, x: Tensor, weight: Tensor, out: Tensor, tile: Tile) -> Tensor:
    inputs = weight.shape[1]
    count, outputs = x.numel() // inputs, weight.shape[0] // (2 if kind == GATED else 1)
    rows = rows_of(count)
    heights, kernel = -(-count // rows), _kernel(kind, tile, inputs, rows)
    assert kernel is not None, "`compiled` has made it"
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


def _of(kind: int, x: Tensor, weight: Tensor, tile: Tile | None) -> Tile:
    tile = tile or tile_of(kind, x.numel() // x.shape[-1], *weight.shape)
    assert tile is not None
    return tile


def linear(x: Tensor, weight: Tensor, tile: Tile | None = None) -> Tensor:
    """x [..., inputs], weight [outputs, inputs] -> [..., outputs]. `tile`: instead of that in TILES."""
    tile = _of(LINEAR, x, weight, tile)
    return _run(LINEAR, x, weight, x.new_empty(*x.shape[:-1], weight.shape[0]), tile)


def gated(x: Tensor, gate_up: Tensor, tile: Tile | None = None) -> Tensor:
    """silu(x gate) * (x up): [..., outputs / 2]."""
    tile = _of(GATED, x, gate_up, tile)
    return _run(GATED, x, gate_up, x.new_empty(*x.shape[:-1], gate_up.shape[0] // 2), tile)


def parted(x: Tensor, weight: Tensor, tile: Tile | None = None) -> Tensor:
    """The parts of a product [parts, rows, outputs] float32."""
    tile = _of(ADDED, x, weight, tile)
    count = x.numel() // x.shape[-1]
    out = torch.empty((tile.split // tile.cluster, count, weight.shape[0]), dtype=torch.float32, device=x.device)
    return _run(ADDED, x, weight, out, tile)
