"""The order of a decoder stack's weights for the persistent kernels."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from omnitts_cli.kernels.ops import LayerWeights

PROGRAMS, WARPS = 128, 8
HEADS, KV_HEADS, WIDE = 16, 8, 128

# elements of a lane's fragment of a 16 x 16 tile: the row and the column they add to the lane's own
ROW_OF = (0, 0, 8, 8, 0, 0, 8, 8)
COLUMN_OF = (0, 1, 0, 1, 2, 3, 2, 3)


def norms(layers: Sequence[LayerWeights], final: Tensor) -> Tensor:
    """All norm weights in the kernels' order."""
    each = [norm for x in layers for norm in (x.input_norm, x.mlp_norm, x.q_norm, x.k_norm)]
    return torch.cat([*each, final]).contiguous()


class Layout:
    """The place of each weight in a program's line: tiles of 16 x 16 as fragments of `mma.m16n8k16`. A line is [chunks,
    8 warps, 2 tiles, 32 lanes, 8 elements]; one row takes two chunks at a time. `blocks` is the width of the residual
    stream in blocks of 1,024 columns.
    """

    def __init__(self, device: torch.device, blocks: int = 1) -> None:
        def count(number: int) -> Tensor:
            return torch.arange(number, device=device)

        lane = count(32)
        self.row, self.place = lane // 4, lane % 4  # the lane's row in a tile, and its quarter of the columns
        self.rows_of = torch.tensor(ROW_OF, device=device)
        self.columns_of = torch.tensor(COLUMN_OF, device=device)
        self.program, self.warp = count(PROGRAMS), count(WARPS)
        self.kv_head, self.member = self.program // 16, self.program % 16
        self.count, self.blocks = count, blocks

    def columns(self, tiles: int) -> Tensor:
        """Columns of consecutive tiles along the inputs: [tiles, 32, 8], 16 of every 32 columns a tile."""
        tile = self.count(tiles)[:, None, None]
        return tile // 2 * 32 + self.place[None, :, None] * 8 + tile % 2 * 4 + self.columns_of

    def inputs(self) -> Tensor:
        """Columns of each warp's share of the residual stream: [8 warps, 8 * blocks tiles, 32, 8]."""
        blocks = [1024 * block + 128 * self.warp[:, None, None, None] + self.columns(8) for block in range(self.blocks)]
        return torch.cat(blocks, 1)

    def outputs(self, tiles: int) -> Tensor:
        """Rows of consecutive tiles along the outputs: [tiles, 32, 8]."""
        return self.count(tiles)[:, None, None] * 16 + self.row[None, :, None] + self.rows_of

    def pairs(self) -> Tensor:
        """Rows of one tile with outputs in pairs, the order of the stored sums: [32, 8]."""
        return 2 * self.row[:, None] + self.rows_of // 8

    def qkv(self, weight: Tensor) -> Tensor:
        """32 outputs per program, of one head, in pairs of dimensions that are rotated together: [128, 4, 8, 4, 32,
        8]."""
        output, quarter = self.count(32), self.member // 4
        dimension = torch.where(output % 4 < 2, output // 4 * 2 + output % 4, 64 + output // 4 * 2 + output % 4 - 2)
        head = torch.where(quarter < 2, 2 * self.kv_head + quarter, HEADS + KV_HEADS * (quarter - 2) + self.kv_head)
        rows = head[:, None] * WIDE + 16 * (self.member % 4)[:, None] + dimension
        # tiles alternate between the two halves of the outputs
        rows = rows[:, self.outputs(2)].repeat(1, 8 * self.blocks, 1, 1)[:, None]  # [128, 1, tiles, 32, 8]
        return self._tiles(weight, rows, self.inputs().repeat_interleave(2, 1)[None])

    def out(self, weight: Tensor) -> Tensor:
        """64 outputs per program and block, from the two heads of its group; a warp computes 16 from 128 of 256
        inputs."""
        part = self.count(self.blocks).repeat(8)[:, None, None]  # the blocks alternate
        band = 16 * ((self.warp // 2)[:, None, None, None] + 4 * part)
        rows = 64 * self.blocks * self.member[:, None, None, None, None] + band + self.pairs()
        columns = 256 * self.kv_head[:, None, None, None, None] + 128 * (self.warp % 2)[:, None, None, None]
        return self._tiles(weight, rows, columns + self.columns(8).repeat_interleave(self.blocks, 0))

    def gate_up(self, weight: Tensor) -> Tensor:
        """Gate and up of 24 units per program and block."""
        units, tiles = 24 * self.blocks, 3 * self.blocks
        output = self.outputs(tiles).repeat(8 * self.blocks, 1, 1)
        rows = torch.where(output < units, output, PROGRAMS * units + output - units)
        rows = rows + units * self.program[:, None, None, None, None]
        return self._tiles(weight, rows, self.inputs().repeat_interleave(tiles, 1)[None])

    def down_alone(self, weight: Tensor) -> Tensor:
        """All outputs from the program's 24 units: 16 units in tiles of 16 x 16, then 8 in pairs of tiles of 16 x 8."""
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

    def down_wide(self, weight: Tensor) -> Tensor:
        """All outputs from the program's 48 units, with two blocks: three tiles for every 16 outputs."""
        tile = self.count(48)[:, None, None]
        rows = 16 * (16 * self.warp[:, None, None, None] + tile // 3) + self.pairs()
        columns = 16 * (tile % 3) + 4 * self.place[:, None] + self.columns_of
        return self._tiles(weight, rows[None], 48 * self.program[:, None, None, None, None] + columns)

    def down_grouped(self, weight: Tensor) -> Tensor:
        """64 outputs per program and block, from the units of its group; a warp computes 16 of 64 from half of the
        units."""
        part = self.count(self.blocks).repeat(12 * self.blocks)[:, None, None]  # the blocks alternate
        band = 16 * ((self.warp // 2)[:, None, None, None] + 4 * part)
        rows = 64 * self.blocks * self.member[:, None, None, None, None] + band + self.pairs()
        units = 384 * self.blocks
        columns = units * self.kv_head[:, None, None, None, None] + units // 2 * (self.warp % 2)[:, None, None, None]
        return self._tiles(weight, rows, columns + self.columns(12 * self.blocks).repeat_interleave(self.blocks, 0))

    def down_in_parts(self, weight: Tensor) -> Tensor:
        """As `down_grouped`, in the order of `add_tile`: eight parts per warp, each with the units of one program."""
        part: Tensor | int
        if self.blocks == 2:
            tile = self.count(48)[:, None, None]
            part, row, column = tile % 2, self.pairs(), 16 * (tile // 2) + 4 * self.place[:, None] + self.columns_of
        else:
            tile, element, part = self.count(12)[:, None, None], self.count(8), 0
            narrow, two = tile % 3 == 2, 48 * (tile // 3)
            row = torch.where(narrow, 2 * self.row[:, None] + element % 4 // 2, self.pairs())
            wide_at = 24 * (tile % 3) + 4 * self.place[:, None] + self.columns_of
            column = two + torch.where(
                narrow, 24 * (element // 4) + 16 + 2 * self.place[:, None] + element % 2, wide_at
            )
        band = 16 * ((self.warp // 2)[:, None, None, None] + 4 * part)
        rows = 64 * self.blocks * self.member[:, None, None, None, None] + band + row
        units = 384 * self.blocks
        columns = units * self.kv_head[:, None, None, None, None] + units // 2 * (self.warp % 2)[:, None, None, None]
        return self._tiles(weight, rows, columns + column)

    def layer(self, weights: LayerWeights, in_parts: bool = False) -> Tensor:
        """A layer's lines: [128, chunks * 8 * 2 * 32 * 8]. One row reads all but `down` of them."""
        down = self.down_in_parts if in_parts else self.down_grouped
        parts = self.qkv(weights.qkv), self.out(weights.out), self.gate_up(weights.gate_up), down(weights.down)
        return self._cut(torch.cat(parts, 1))

    def down_of_one(self, weight: Tensor) -> Tensor:
        """The lines of `down` that one row reads: [128, chunks * 8 * 2 * 32 * 8]."""
        return self._cut(self.down_alone(weight) if self.blocks == 1 else self.down_wide(weight))

    def head(self, weight: Tensor) -> Tensor:
        """A head's lines, 16 outputs per program: [128, 4 * 8 * 2 * 32 * 8]."""
        rows = 16 * self.program[:, None, None, None, None] + self.outputs(1)
        return self._cut(self._tiles(weight, rows, self.inputs()[None]))

    def _gather(self, weight: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        rows, columns = torch.broadcast_tensors(rows, columns)
        found = weight[rows, columns]
        return found.expand(PROGRAMS, WARPS, *found.shape[2:])

    def _tiles(self, weight: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """[128, 8 warps, tiles, 32, 8] -> [128, tiles / 4, 8 warps, 4, 32, 8]"""
        return self._gather(weight, rows, columns).unflatten(2, (-1, 4)).transpose(1, 2)

    def _cut(self, lines: Tensor) -> Tensor:
        """[128, fours, 8 warps, 4, 32, 8] -> chunks with two tiles for each warp"""
        return lines.unflatten(3, (2, 2)).transpose(2, 3).reshape(PROGRAMS, -1)


@dataclass(frozen=True)
class Lines:
    """The reordered weights of a stack: the only copy that its persistent kernels read."""

    layers: Tensor  # [layers, 128, elements]
    down: Tensor  # [layers, 128, elements] as one row reads it, for which the order above does not suit

    @staticmethod
    def of(layers: Sequence[LayerWeights], in_parts: bool) -> "Lines":
        """The lines of these layers."""
        like = layers[0].down
        layout = Layout(like.device, like.shape[0] // 1024)
        numbers = sum(getattr(layers[0], name).numel() for name in ("qkv", "out", "gate_up", "down"))
        made = like.new_empty(len(layers), PROGRAMS, numbers // PROGRAMS)
        down = like.new_empty(len(layers), PROGRAMS, like.numel() // PROGRAMS)
        for index, weights in enumerate(layers):
            made[index].copy_(layout.layer(weights, in_parts))
            down[index].copy_(layout.down_of_one(weights.down))
        return Lines(made, down)
