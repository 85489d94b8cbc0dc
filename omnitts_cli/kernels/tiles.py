"""Tiles: the part of a product that one program computes, by the shape of the product. Only numbers, so that
`kernels/choose.py` can ask about a card that is not there. How they were found is in benchmarks/LOG.md.
"""

from typing import NamedTuple

LINEAR, GATED, ADDED = range(3)
"""Kinds of products: alone, gate and up with the gate applied, and added to a residual."""


class Tile(NamedTuple):
    """Of a product of Triton, with its launch options."""

    outputs: int
    inputs: int  # per turn
    warps: int = 4
    stages: int = 1
    parts: int = 1  # programs among which one inner sum is split
    rows: int = 0  # 0: that of `padded`


def block_of(inputs: int, most: int) -> int:
    """The largest power of two that divides a number of inputs or outputs, at most `most`."""
    return min(inputs & -inputs, most)


def ceiling(count: int, size: int) -> int:
    return -(-count // size)


# ---- products of the talker, the predictor and the thinker

LEAST_INPUTS = 32
"""The least inputs per turn of kernels for one or a few rows."""


def row_tile(kind: int, outputs: int, inputs: int) -> Tile | None:
    """For one row; None if no tile divides the sizes."""
    if kind == LINEAR and outputs >= 4096:
        tile = Tile(4, 1024)
    elif kind == GATED and inputs <= 1024:
        tile = Tile(2, 512)
    else:
        tile = Tile(2, 1024)
    return _cut(tile, outputs, inputs)


def few_tile(kind: int, rows: int, outputs: int, inputs: int) -> Tile | None:
    """For a few rows: gated products, and products that are added to a residual."""
    if kind == LINEAR:
        return None
    if kind == GATED:
        return _cut(Tile(32, 128, 2, 5) if rows <= 16 else Tile(64, 64, 4, 5), outputs, inputs)
    tile = Tile(64, 128, 4, 4, parts=4)
    return None if inputs % tile.parts else _cut(tile, outputs, inputs // tile.parts)


def _cut(tile: Tile, outputs: int, inputs: int) -> Tile | None:
    tile = tile._replace(inputs=block_of(inputs, tile.inputs))
    return None if outputs % tile.outputs or tile.inputs < LEAST_INPUTS else tile


def eight_row_tile(kind: int, outputs: int, inputs: int) -> Tile:
    """For one row and a matrix in 8 bits: all inputs in one turn, filled up to a power of two; 16 weights a thread."""
    width = 1 << (inputs - 1).bit_length()
    numbers = max(width, 2048 if kind == GATED else 4096)
    return Tile(block_of(outputs, numbers // width), width, numbers // 512)


def eight_tile(kind: int, rows: int, inputs: int) -> Tile:
    """The same for more rows."""
    parts = 4 if kind == ADDED and rows <= 128 and inputs % (4 * 64) == 0 else 1
    few = rows <= 16
    tile = Tile(32 if few or kind == GATED else 64, 128 if few else 64, 4, 4, parts)
    return tile._replace(inputs=block_of(inputs // parts, tile.inputs))


MANY_ROWS: dict[int, dict[tuple[int, int], Tile]] = {
    LINEAR: {
        (1024, 128): Tile(64, 128, 4, 4, rows=64),
        (2048, 128): Tile(64, 128, 4, 4, rows=64),
    },
    GATED: {(2048, 128): Tile(64, 64, 8, 4, rows=128)},
    ADDED: {
        (1024, 128): Tile(64, 128, 4, 4, parts=4, rows=64),
        (2048, 128): Tile(64, 128, 4, 4, parts=2, rows=64),
        (1024, 256): Tile(64, 128, 4, 4, parts=2, rows=64),
        (2048, 256): Tile(64, 64, 4, 6, parts=2, rows=64),
    },
}
"""Tiles of `triton/many_rows.py`, by the width of the stack and the largest number of rows."""


def many_rows_tile(kind: int, rows: int, outputs: int, inputs: int) -> Tile | None:
    """For 65 to 256 rows; None if these kernels do not apply. `outputs`: gates and ups both count."""
    width = outputs if kind == ADDED else inputs
    most = min((most for known, most in MANY_ROWS[kind] if known == width and most >= rows), default=0)
    tile = MANY_ROWS[kind].get((width, most))
    if tile is None or outputs % (2 * tile.outputs) or inputs % (tile.inputs * tile.parts):
        return None
    return tile


# ---- products of the codec

CodecTile = tuple[int, int, int, int, int]
"""Columns, outputs, inputs per iteration, warps, stages. Measured on one H200 of 132 multiprocessors."""
TILES: tuple[CodecTile, ...] = ((64, 128, 64, 4, 4), (64, 64, 64, 4, 4), (32, 32, 128, 4, 4), (16, 64, 128, 4, 4))
"""Large ones first."""
NORMED_TILES = TILES[-2:]
"""For products with a norm before or a gate after them."""
LARGE_NORMED: CodecTile = (64, 64, 64, 4, 3)
"""The same for such products of many columns."""
ORDERED_TILES: tuple[CodecTile, ...] = (
    (64, 128, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 32, 64, 4, 6),
    (64, 16, 128, 4, 6),
)
"""Tiles that add in one order. All have at least 64 columns and so use `wgmma`, whose sums may differ from those of
`mma`. The inner sum is never split, so the numbers of outputs and of inputs per iteration do not matter."""
ENOUGH = 110
"""The number of programs that fill the card."""
PROGRAMS = 132
"""The most programs among which the inner sum of a product of few tiles is split ..."""
LEAST_TURNS = 2
"""... if each has at least this many iterations."""
UNIT_TILES = {64: (64, 32, 4, 4), 128: (64, 64, 4, 3)}
"""Tiles of a whole residual unit, by the larger part of its channels: columns, inputs per iteration, warps, stages."""
UNIT_ENOUGH = 220
WIDE_TILES: tuple[CodecTile, ...] = ((128, 128, 64, 8, 4), (64, 128, 64, 4, 4))
"""Tiles whose operands the copy engine fetches. The second is for calls whose columns the first does not divide.
Measured at 16 frames of 32 streams."""
WIDE_ENOUGH = 264
"""The least number of programs for the copy engine: two per multiprocessor ..."""
WIDE_ENOUGH_SMALL = 132
"""... or one per multiprocessor, with the second tile."""


class CodecPlan(NamedTuple):
    """How `triton/codec_products.py` computes a product."""

    tile: CodecTile
    share: int = 0  # turns of each part, if the inner sum is split
    parts: int = 1


def codec_plan(
    count: int, outputs: int, inputs: int, width: int, special: bool, ordered: bool, splits: bool, halves: bool
) -> CodecPlan | None:
    """For `count` columns; None if a tap has too few inputs. `special`: with a norm or a gate."""
    if ordered:
        tile = NORMED_TILES[0] if special else ordered_tile(count, outputs)
    else:
        tile = fitting_tile((LARGE_NORMED, *NORMED_TILES) if special else TILES, count, outputs, width)
    block_m, block_n, block_k, warps, stages = tile
    block_k = block_of(inputs, block_k if halves else block_k // 2)
    if block_k < 16:
        return None
    tile, tiles, turns = (block_m, block_n, block_k, warps, stages), ceiling(outputs, block_n), width // block_k
    tiles *= ceiling(count, block_m)
    if tiles >= ENOUGH or special or ordered or not splits:
        return CodecPlan(tile)
    share = ceiling(turns, max(1, min(PROGRAMS // tiles, turns // LEAST_TURNS)))
    return CodecPlan(tile, share, ceiling(turns, share))


def fitting_tile(tiles: tuple[CodecTile, ...], count: int, outputs: int, width: int) -> CodecTile:
    """The largest tile that is not mostly padding and yields enough programs to fill the card."""
    for tile in tiles[:-1]:
        lines, sides = ceiling(count, tile[0]), ceiling(outputs, tile[1])
        full = tile[0] < 2 * count and 4 * sides * tile[1] <= 5 * outputs
        if full and lines * sides * max(1, width // tile[2] // 8) >= ENOUGH:
            return tile
    return tiles[-1]


def ordered_tile(count: int, outputs: int) -> CodecTile:
    """The largest tile of one order that yields enough programs."""
    for tile in ORDERED_TILES[:-1]:
        sides = ceiling(outputs, tile[1])
        if 4 * sides * tile[1] <= 5 * outputs and ceiling(count, tile[0]) * sides >= ENOUGH:
            return tile
    return ORDERED_TILES[-1]


def wide_tile(rows: int, columns: int, inputs: int, outputs: int) -> CodecTile | None:
    """The copy engine's tile for a product of `columns` columns in each of `rows` streams; None if there is none."""
    for tile, enough in zip(WIDE_TILES, (WIDE_ENOUGH, WIDE_ENOUGH_SMALL), strict=True):
        if not (columns % tile[0] or outputs % tile[1] or inputs % tile[2]):
            return tile if rows * columns // tile[0] * (outputs // tile[1]) >= enough else None
    return None


def halves_of(channels: int) -> tuple[int, int]:
    """The channels of a residual unit as a power of two and the rest."""
    large = 1 << channels.bit_length() - 1
    return large, channels - large
