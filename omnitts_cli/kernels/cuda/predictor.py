"""The predictor's passes, heads and draws of one frame as one persistent kernel (`predictor.cu`), for up to 8 rows.

Only for the released shape in bfloat16 on Hopper (H100, H200). Anything else uses the kernels in `kernels/triton`,
which also stand in where this one cannot be compiled.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import c_int, c_void_p
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels.cuda.nvrtc import CompileError, Kernel
from omnitts_cli.kernels.ops import LayerWeights, PredictorParts

SOURCE = Path(__file__).with_name("predictor.cu")
PROGRAMS, WARPS, THREADS = 128, 8, 384
LAYERS, HIDDEN, HEADS, KV_HEADS, WIDE, INNER = 5, 1024, 16, 8, 128, 3072
GROUPS, CODES = 16, 2048
MOST_ROWS = 8
CAPABILITY = (9, 0)  # Hopper

# elements of a lane's fragment of a 16 x 16 tile: the row and the column they add to the lane's own
ROW_OF = (0, 0, 8, 8, 0, 0, 8, 8)
COLUMN_OF = (0, 1, 0, 1, 2, 3, 2, 3)


class _Frame(ctypes.Structure):
    """The kernel's parameter: `struct Frame` of predictor.cu."""

    _fields_ = (
        *(
            (name, c_void_p)
            for name in (
                "lines heads norms turns hidden first tables first_codes seeds frames temperature top_k top_p codes "
                "logits sums words overflow"
            ).split()
        ),
        ("rows", c_int),
    )


class Layout:
    """Where each weight lies in a program's line: tiles of 16 x 16 as fragments of `mma.m16n8k16`.

    A line is [15 chunks, 8 warps, 4 tiles, 32 lanes, 8 elements]. For eight rows the chunks are cut in halves.
    """

    def __init__(self, device: torch.device) -> None:
        def count(number: int) -> Tensor:
            return torch.arange(number, device=device)

        lane = count(32)
        self.row, self.place = lane // 4, lane % 4  # the lane's row in a tile, and its quarter of the columns
        self.rows_of = torch.tensor(ROW_OF, device=device)
        self.columns_of = torch.tensor(COLUMN_OF, device=device)
        self.program, self.warp = count(PROGRAMS), count(WARPS)
        self.kv_head, self.member = self.program // 16, self.program % 16
        self.count = count

    def columns(self, tiles: int) -> Tensor:
        """Columns of consecutive tiles along the inputs: [tiles, 32, 8], 16 of every 32 columns a tile."""
        tile = self.count(tiles)[:, None, None]
        return tile // 2 * 32 + self.place[None, :, None] * 8 + tile % 2 * 4 + self.columns_of

    def outputs(self, tiles: int) -> Tensor:
        """Rows of tiles below each other: [tiles, 32, 8]."""
        return self.count(tiles)[:, None, None] * 16 + self.row[None, :, None] + self.rows_of

    def pairs(self) -> Tensor:
        """Rows of one tile whose outputs lie in pairs, as the sums are stored: [32, 8]."""
        return 2 * self.row[:, None] + self.rows_of // 8

    def qkv(self, weight: Tensor) -> Tensor:
        """32 outputs a program, of one head: pairs of dimensions that are rotated together. [128, 4, 8, 4, 32, 8]"""
        output, quarter = self.count(32), self.member // 4
        dimension = torch.where(output % 4 < 2, output // 4 * 2 + output % 4, 64 + output // 4 * 2 + output % 4 - 2)
        head = torch.where(quarter < 2, 2 * self.kv_head + quarter, HEADS + KV_HEADS * (quarter - 2) + self.kv_head)
        rows = head[:, None] * WIDE + 16 * (self.member % 4)[:, None] + dimension
        # tiles alternate between the two halves of the outputs
        rows = rows[:, self.outputs(2)].repeat(1, 8, 1, 1)[:, None]  # [128, 1, 16, 32, 8]
        columns = self.columns(8).repeat_interleave(2, 0) + 128 * self.warp[:, None, None, None]
        return self._tiles(weight, rows, columns[None])

    def out(self, weight: Tensor) -> Tensor:
        """64 outputs a program, from the two heads of its group; a warp makes 16 from 128 of the 256 inputs."""
        rows = 64 * self.member[:, None, None, None, None] + 16 * (self.warp // 2)[:, None, None, None] + self.pairs()
        columns = 256 * self.kv_head[:, None, None, None, None] + 128 * (self.warp % 2)[:, None, None, None]
        return self._tiles(weight, rows, columns + self.columns(8))

    def gate_up(self, weight: Tensor) -> Tensor:
        """Gate and up of 24 units a program."""
        output = self.outputs(3).repeat(8, 1, 1)
        rows = torch.where(output < 24, output, INNER + output - 24) + 24 * self.program[:, None, None, None, None]
        columns = self.columns(8).repeat_interleave(3, 0) + 128 * self.warp[:, None, None, None]
        return self._tiles(weight, rows, columns[None])

    def down_alone(self, weight: Tensor) -> Tensor:
        """All outputs from the program's 24 units: 16 as tiles of 16 x 16, then 8 as pairs of tiles of 16 x 8."""
        tile = self.count(8)
        band = 16 * (4 * self.warp[:, None] + tile % 4 + 32 * (tile // 4))[:, :, None, None]  # [8, 8, 1, 1]
        unit = 24 * self.program[:, None, None, None, None]
        columns = unit + 4 * self.place[:, None] + self.columns_of
        wide = self._tiles(weight, (band + self.pairs())[None], columns)
        rows = band + 2 * self.row[:, None] + self.count(4) // 2
        columns = unit + 16 + 2 * self.place[:, None] + self.count(4) % 2
        narrow = self._gather(weight, rows[None], columns)  # [128, 8 warps, 8 tiles, 32, 4]
        narrow = narrow.unflatten(2, (4, 2)).transpose(3, 4).flatten(4)
        return torch.cat([wide, narrow[:, None]], 1)

    def down_grouped(self, weight: Tensor) -> Tensor:
        """64 outputs a program, from the 384 units of its group; a warp makes 16 from 192 of them."""
        rows = 64 * self.member[:, None, None, None, None] + 16 * (self.warp // 2)[:, None, None, None] + self.pairs()
        columns = 384 * self.kv_head[:, None, None, None, None] + 192 * (self.warp % 2)[:, None, None, None]
        return self._tiles(weight, rows, columns + self.columns(12))

    def layer(self, weights: LayerWeights, alone: bool) -> Tensor:
        """A layer's lines: [128, 15 * 8 * 4 * 32 * 8]."""
        down = self.down_alone if alone else self.down_grouped
        parts = self.qkv(weights.qkv), self.out(weights.out), self.gate_up(weights.gate_up), down(weights.down)
        return self._cut(torch.cat(parts, 1), alone)

    def head(self, weight: Tensor, alone: bool) -> Tensor:
        """A head's lines, 16 outputs a program: [128, 2 * 8 * 4 * 32 * 8]."""
        rows = 16 * self.program[:, None, None, None, None] + self.outputs(1)
        columns = self.columns(8) + 128 * self.warp[:, None, None, None]
        return self._cut(self._tiles(weight, rows, columns[None]), alone)

    def _gather(self, weight: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        rows, columns = torch.broadcast_tensors(rows, columns)
        found = weight[rows, columns]
        return found.expand(PROGRAMS, WARPS, *found.shape[2:])

    def _tiles(self, weight: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """[128, 8 warps, tiles, 32, 8] -> [128, tiles / 4, 8 warps, 4, 32, 8]"""
        return self._gather(weight, rows, columns).unflatten(2, (-1, 4)).transpose(1, 2)

    def _cut(self, lines: Tensor, alone: bool) -> Tensor:
        if not alone:  # half as large chunks
            lines = lines.unflatten(3, (2, 2)).transpose(2, 3)
        return lines.reshape(PROGRAMS, -1)


@dataclass
class _Variant:
    """The kernel for one row, or for up to eight, with the weights in its order."""

    kernel: Kernel
    lines: Tensor
    heads: Tensor
    state: Tensor  # bytes: sums, then words
    sums: int  # bytes of `sums` in it

    @staticmethod
    def of(parts: PredictorParts, alone: bool, defines: Mapping[str, int]) -> _Variant:
        device = parts.norm.device
        layout, rows = Layout(device), 1 if alone else MOST_ROWS
        shared = 36 * 4096 + 8 * (2560 + 576 + 832 + 128) + 512 + 128 + 40960 + (9 if alone else 18) * 16
        kernel = Kernel(SOURCE, "predictor_frame", {"ROWS": rows, **defines}, "sm_90a", PROGRAMS, THREADS, shared)
        sums = 4 * rows * 128 * (1024 if alone else 64)
        return _Variant(
            kernel=kernel,
            lines=torch.stack([layout.layer(weights, alone) for weights in parts.layers]),
            heads=torch.stack([layout.head(head, alone) for head in parts.heads]),
            state=torch.zeros(sums + 4 * rows * 11266, dtype=torch.uint8, device=device),
            sums=sums,
        )


class PersistentPredictor:
    """Codes of a frame from the talker's state and the row of group 0. See `FusedPredictor` in `kernels/ops.py`."""

    most_rows = MOST_ROWS

    def __init__(self, parts: PredictorParts, defines: Mapping[str, int]) -> None:
        self._variants = {alone: _Variant.of(parts, alone, defines) for alone in (True, False)}
        norms = [norm for x in parts.layers for norm in (x.input_norm, x.mlp_norm, x.q_norm, x.k_norm)]
        self._norms = torch.cat([*norms, parts.norm]).contiguous()
        self._turns = torch.cat([parts.cos, parts.sin], 1).float().contiguous()
        self._tables = parts.tables
        self._overflow = torch.zeros(1, dtype=torch.int32, pin_memory=True)

    def __call__(
        self,
        hidden: Tensor,
        first: Tensor,
        first_codes: Tensor,
        seeds: Tensor,
        frames: Tensor,
        temperature: Tensor,
        top_k: Tensor,
        top_p: Tensor,
        logits: Tensor | None = None,
    ) -> Tensor:
        rows = hidden.shape[0]
        variant = self._variants[rows == 1]
        # contiguous rows of the kernel's types; for the engine's columns these are no copies
        given = [x.contiguous() for x in (hidden, first, first_codes, seeds, frames, temperature, top_k, top_p)]
        codes = torch.empty(rows, GROUPS, dtype=torch.int64, device=hidden.device)
        variant.state.zero_()
        state = variant.state.data_ptr()
        variant.kernel.launch(
            _Frame(
                variant.lines.data_ptr(),
                variant.heads.data_ptr(),
                self._norms.data_ptr(),
                self._turns.data_ptr(),
                given[0].data_ptr(),
                given[1].data_ptr(),
                self._tables.data_ptr(),
                *(x.data_ptr() for x in given[2:]),
                codes.data_ptr(),
                0 if logits is None else logits.data_ptr(),
                state,
                state + variant.sums,
                self._overflow.data_ptr(),
                rows,
            )
        )
        return codes

    def check(self) -> None:
        """Raise an error if a sum has left the range of the kernel's fixed point. Does not wait for the device."""
        if self._overflow.item():
            raise DeviceError(
                "the predictor's sums exceed the range of its persistent kernel (8,192); the last sounds may be wrong",
                hint="OMNITTS_NATIVE=0 omnitts ...   (uses the other kernels)",
            )


def _suits(parts: PredictorParts) -> bool:
    """Whether the kernel was written for these shapes."""
    layers: Sequence[LayerWeights] = parts.layers
    weights = [(x.qkv, x.out, x.gate_up, x.down, x.q_norm) for x in layers]
    shapes = ((4096, HIDDEN), (HIDDEN, 2048), (2 * INNER, HIDDEN), (HIDDEN, INNER), (WIDE,))
    return (
        len(layers) == LAYERS
        and all(tuple(x.shape) == shape for layer in weights for x, shape in zip(layer, shapes, strict=True))
        and tuple(parts.heads.shape) == (GROUPS - 1, CODES, HIDDEN)
        and tuple(parts.tables.shape) == (GROUPS - 2, CODES, HIDDEN)
        and parts.kv_heads == KV_HEADS
        and parts.eps == 1e-6
        and parts.norm.dtype == torch.bfloat16
    )


def fuse_predictor(parts: PredictorParts, defines: Mapping[str, int] | None = None) -> PersistentPredictor | None:
    """The kernel for these weights; None where it does not fit. `defines` are macros, for tests."""
    device = parts.norm.device
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != CAPABILITY or not _suits(parts):
        return None
    try:
        with torch.cuda.device(device):
            return PersistentPredictor(parts, defines or {})
    except CompileError:
        return None
