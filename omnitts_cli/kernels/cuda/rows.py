"""Layers for 9 rows and more, with sums in the order of the persistent kernels for eight rows (`rows_*.cu`).

A layer is seven kernels: qkv, attention, out, norm, gate and up, down, norm. They share the reordered weights of the
persistent kernels. A row has the same bits alone, among any others, and in the persistent kernels. With --exact,
prompts go through the same kernels; from 256 rows on, their products have larger tiles (`rows_tile.cu`).
"""

import functools
from collections.abc import Callable
from ctypes import c_int, c_int64
from pathlib import Path

import torch
from torch import Tensor

from omnitts_cli.kernels.cuda.layout import PROGRAMS
from omnitts_cli.kernels.cuda.nvrtc import Kernel, place, structure

HERE = Path(__file__).parent
SIZES = (16, 32, 64)
"""Possible heights of a program's tile. More rows take several tiles."""
QKV, OUT, GATE_UP, DOWN, HEAD = range(5)
MANY = 1 << 20
"""More rows than any batch or prompt has."""
ENOUGH = 256
"""The number of programs of `rows_tile` that fill the multiprocessors."""
TILED_ROWS = 256
"""Rows from which the talker's products are computed in large tiles (`rows_tile.cu`), with --exact. The products of a
layer of 1.7B on an H200, small tiles and large ones, in us: 141 and 158 for 128 rows, 213 and 177 for 256, 983 and 787
for 1,280."""
CHUNK, RING = 8192, 24
REST_BYTES = 10240  # shared memory of the kernels in rows_rest.cu


_Product = structure("_Product", "weights input scales out overflow", ("line_bytes", c_int64), ("rows", c_int))
_Tiles = structure(
    "_Tiles", "weights input scales out overflow", ("line_bytes", c_int64), ("rows", c_int), ("heads", c_int)
)
_Norm = structure("_Norm", "residual weight normed scales input sums hidden overflow")
_Attend = structure(
    "_Attend", "qkv norms cosines sines positions slots keys values out", ("slots_apart", c_int64), ("heads", c_int64)
)
_AttendFew = structure("_AttendFew", "qkv norms turns cache out", ("position", c_int))
_Drawn = structure(
    "_Drawn",
    "residual weight normed scales logits table seeds frames temperature top_k top_p codes",
    ("group", c_int),
)
_Linear = structure("_Linear", "input weight bias out", ("rows", c_int), ("outputs", c_int))


def product_bytes(kind: int, rows: int, blocks: int) -> int:
    """Shared memory of `rows_product`, as its macros compute it."""
    down = {QKV: 2, GATE_UP: 3 * blocks, HEAD: 1}.get(kind, blocks)
    along = {OUT: 8, DOWN: 12 * blocks}.get(kind, 8 * blocks)
    ring = min(down * along // 2, RING)
    group = 32 if blocks == 2 and rows >= 32 else 16
    teams = 1 if blocks == 1 else rows // group
    added = kind in (OUT, DOWN)
    parts = teams * 4 * down * group // 8 * 512 if added else 8 * teams * group * (16 * down + 4) * 4
    parts_end = (ring * CHUNK if added or blocks == 1 else 0) + parts
    return max(parts_end, ring * CHUNK) + ring * 16


def tile_of(kind: int, blocks: int) -> tuple[int, int]:
    """The height of a tile of `rows_tile`, and its shared memory, as its macros compute them."""
    down = {QKV: 2, GATE_UP: 3 * blocks}.get(kind, blocks)
    added = kind in (OUT, DOWN)
    eighths = 8 if kind == DOWN or (kind == OUT and blocks == 1) else 4
    bands, step = 4 if added else 2, 3 if kind == DOWN else 2
    rows = 8 * eighths * 8 // bands
    return rows, 4 * 512 * (bands * 2 * step * down + step * rows // 8)


@functools.cache
def _rest(name: str, blocks: int) -> Kernel:
    return Kernel(HERE / "rows_rest.cu", name, {"BLOCKS": blocks}, "sm_90a", 0, 256, REST_BYTES, early=True)


class RowLayers:
    """The layers of a stack. `lines` [layers, 128, ...] and `norms` are those of the persistent kernels."""

    def __init__(self, lines: Tensor, norms: Tensor, overflow: int, predictor: bool, fine: bool) -> None:
        self.lines, self.norms, self.count, self._overflow = lines, norms, lines.shape[0], overflow
        self.width = norms.numel() // (2 * self.count + 1) // 1024 * 1024
        self.blocks, self._predictor, self._fine = self.width // 1024, predictor, fine
        self._kernels: dict[tuple[int, int], Kernel] = {}

    def norm_at(self, layer: int, mlp: bool = False) -> int:
        """Address of a layer's norm before attention, or before its MLP. The final one follows the last layer."""
        return self.norms.data_ptr() + 2 * (layer * (2 * self.width + 256) + self.width * mlp)

    def head_norms(self, layer: int) -> int:
        """Address of the norms of queries and keys."""
        return self.norm_at(layer) + 4 * self.width

    def product(self, kind: int, weights: int, line_bytes: int, x: Tensor, scales: Tensor | None, out: Tensor) -> None:
        """One product of all rows of `x`."""
        rows = x.shape[0]
        if rows >= TILED_ROWS and self._fine and not self._predictor:
            return self._tiled(kind, weights, line_bytes, x, scales, out)
        # two programs per multiprocessor, each with half of the rows; gate and up need too much memory for two
        sizes = SIZES[:2] if self.blocks == 1 and kind != GATE_UP and rows <= SIZES[-1] else SIZES
        size = next((size for size in sizes if size >= rows), sizes[-1])
        if (kind, size) not in self._kernels:
            group = 32 if self.blocks == 2 and size >= 32 else 16
            threads = 256 if self.blocks == 1 else 256 * size // group
            stack = {"BLOCKS": self.blocks, "PREDICTOR": int(self._predictor), "FINE": int(self._fine)}
            self._kernels[kind, size] = Kernel(
                HERE / "rows_product.cu",
                "rows_product",
                {"ROWS": size, "KIND": kind, **stack},
                "sm_90a",
                0,
                threads,
                product_bytes(kind, size, self.blocks),
                early=True,
            )
        given = _Product(weights, x.data_ptr(), place(scales), out.data_ptr(), self._overflow, line_bytes, rows)
        self._kernels[kind, size].launch(given, PROGRAMS * -(-rows // size))

    def _tiled(self, kind: int, weights: int, line_bytes: int, x: Tensor, scales: Tensor | None, out: Tensor) -> None:
        rows, (size, shared) = x.shape[0], tile_of(kind, self.blocks)
        if (kind, 0) not in self._kernels:
            macros = {"KIND": kind, "BLOCKS": self.blocks, "FINE": 1}
            source = HERE / "rows_tile.cu"
            self._kernels[kind, 0] = Kernel(source, "rows_tile", macros, "sm_90a", 0, 256, shared, early=True)
        tiles, heads = -(-rows // size), 8
        while kind in (OUT, DOWN) and 16 * tiles * (8 // heads) < ENOUGH and heads > 1:
            heads //= 2  # split the inputs among more programs
        programs = 16 * (8 // heads) if kind in (OUT, DOWN) else PROGRAMS // 2
        given = _Tiles(weights, x.data_ptr(), place(scales), out.data_ptr(), self._overflow, line_bytes, rows, heads)
        self._kernels[kind, 0].launch(given, programs * tiles)


class Pass:
    """The buffers of a pass through the layers: the residual stream in float32, and results between kernels."""

    def __init__(self, layers: RowLayers, rows: int) -> None:
        def empty(width: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
            return torch.empty(rows, width, dtype=dtype, device=layers.lines.device)

        self._layers, self.rows, width = layers, rows, layers.width
        self.residual, self.normed, self.scales = empty(width, torch.float32), empty(width), empty(1, torch.float32)
        self.sums = torch.zeros(rows, width // 2, dtype=torch.int64, device=layers.lines.device)
        self.qkv, self.attended, self.units = empty(4096), empty(2048), empty(3072 * layers.blocks)

    def stream(self, weight: int) -> tuple[int, int, int, int]:
        """The C `struct Stream`, with the address of the next norm's weight."""
        return self.residual.data_ptr(), weight, self.normed.data_ptr(), self.scales.data_ptr()

    def norm(self, weight: int, begin: Tensor | None = None, hidden: Tensor | None = None) -> None:
        """Start with the rows `begin`, or add the sums of the last product; then the norm, into `hidden` if it is the
        final one."""
        arguments = _Norm(*self.stream(weight), *map(place, (begin, self.sums, hidden)), self._layers._overflow)
        _rest("rows_norm", self._layers.blocks).launch(arguments, self.rows)

    def layer(self, index: int, attend: Callable[[int], None], keys_only: bool = False) -> None:
        """One layer up to the sums of its MLP. `attend` takes the layer, reads `qkv` and writes `attended`."""
        layers, blocks = self._layers, self._layers.blocks
        line = layers.lines.stride(1) * 2
        at = layers.lines[index].data_ptr()
        layers.product(QKV, at, line, self.normed, self.scales, self.qkv)
        attend(index)
        if keys_only:
            return
        at += 8 * blocks * CHUNK
        layers.product(OUT, at, line, self.attended, None, self.sums)
        at += 4 * blocks * CHUNK
        self.norm(layers.norm_at(index, mlp=True))
        layers.product(GATE_UP, at, line, self.normed, self.scales, self.units)
        at += 12 * blocks * blocks * CHUNK
        layers.product(DOWN, at, line, self.units, None, self.sums)


class RowTalker:
    """A step of the talker for any number of rows, and the rows of prompts."""

    def __init__(self, layers: RowLayers) -> None:
        self._layers = layers

    def step(
        self, rows: Tensor, positions: Tensor, slots: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        """As `FusedStep` in `kernels/ops.py`."""
        made, layers = Pass(self._layers, rows.shape[0]), self._layers
        rows, positions, slots = rows.contiguous(), positions.contiguous(), slots.contiguous()

        def attend(index: int) -> None:
            arguments = _Attend(
                made.qkv.data_ptr(),
                layers.head_norms(index),
                *(x.data_ptr() for x in (cos, sin, positions, slots, keys[index], values[index], made.attended)),
                *keys.stride()[1:3],
            )
            _rest("rows_attend", layers.blocks).launch(arguments, 8 * made.rows)

        return self._through(made, rows, attend)

    def prompts(self, rows: Tensor, attend: Callable[[int, Tensor], Tensor]) -> Tensor:
        """Rows [B, P, H]; `attend` takes a layer and its projection [B, P, 4096] and writes the cache."""
        made = Pass(self._layers, rows.shape[0] * rows.shape[1])

        def attend_flat(index: int) -> None:
            seen = attend(index, made.qkv.view(*rows.shape[:2], -1))
            made.attended = seen.reshape(made.rows, -1)

        return self._through(made, rows.reshape(made.rows, -1).contiguous(), attend_flat).view(rows.shape)

    def _through(self, made: Pass, rows: Tensor, attend: Callable[[int], None]) -> Tensor:
        layers, hidden = self._layers, torch.empty_like(rows)
        made.norm(layers.norm_at(0), begin=rows)
        for index in range(layers.count):
            made.layer(index, attend)
            made.norm(layers.norm_at(index + 1), hidden=hidden if index + 1 == layers.count else None)
        return hidden


class RowPredictor:
    """The predictor's part of a frame for any number of rows. `heads` [G - 1, 128, ...] are the persistent kernel's."""

    def __init__(self, layers: RowLayers, heads: Tensor, turns: Tensor, tables: Tensor) -> None:
        self._layers, self._heads, self._turns, self._tables = layers, heads, turns, tables

    def __call__(
        self,
        hidden: Tensor,
        first: Tensor,
        first_codes: Tensor,
        settings: list[Tensor],  # seeds, frames, temperature, top k, top p
        kept: Tensor | None = None,
    ) -> Tensor:
        """Codes [B, G]; `kept` [G - 1, B, codes] gets the logits."""
        layers, rows, device = self._layers, hidden.shape[0], hidden.device
        made, groups = Pass(layers, rows), len(self._heads) + 1
        cache = torch.empty(layers.count, rows, 8 * 8192, dtype=torch.uint8, device=device)
        logits = torch.empty(rows, 2048, dtype=torch.bfloat16, device=device)
        codes = torch.empty(rows, 16, dtype=torch.int64, device=device)
        codes[:, 0] = first_codes
        for position in range(groups):

            def attend(index: int, position: int = position) -> None:
                turns = self._turns[position].data_ptr()
                given = made.qkv.data_ptr(), layers.head_norms(index), turns, cache[index].data_ptr()
                arguments = _AttendFew(*given, made.attended.data_ptr(), position)
                _rest("rows_attend_few", 1).launch(arguments, 2 * rows)

            if position < 2:
                made.norm(layers.norm_at(0), begin=(hidden, first)[position])
            for index in range(layers.count):
                only = position == 0 and index + 1 == layers.count  # the hidden state of position 0 is not used
                made.layer(index, attend, keys_only=only)
                if not only:
                    made.norm(layers.norm_at(index + 1))
            if position == 0:
                continue
            weights, line = self._heads[position - 1].data_ptr(), self._heads.stride(1) * 2
            out = logits if kept is None else kept[position - 1]
            layers.product(HEAD, weights, line, made.normed, made.scales, out)
            table = self._tables[position - 1].data_ptr() if position + 1 < groups else 0
            given = [x.data_ptr() for x in (*settings, codes)]
            arguments = _Drawn(*made.stream(layers.norm_at(0)), out.data_ptr(), table, *given, position)
            _rest("rows_draw", 1).launch(arguments, rows)
        return codes[:, :groups]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., inputs], weight [outputs, inputs] in bf16 -> [..., outputs], added in one order for any number of
    rows."""
    inputs, outputs = weight.shape[1], weight.shape[0]
    flat, weight = x.reshape(-1, inputs).contiguous(), weight.contiguous()
    out = flat.new_empty(flat.shape[0], outputs)
    given = flat.data_ptr(), weight.data_ptr(), place(bias), out.data_ptr()
    _rest("rows_linear", inputs // 1024).launch(_Linear(*given, flat.shape[0], outputs), outputs // 16)
    return out.view(*x.shape[:-1], outputs)
