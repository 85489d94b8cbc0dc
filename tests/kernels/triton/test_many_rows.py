"""Products of many rows through the copy engine against plain operations.

On a GPU: pytest -m gpu tests/kernels/triton/test_many_rows.py
Without one, in Triton's interpreter: TRITON_INTERPRET=1 pytest -m gpu tests/kernels/triton/test_many_rows.py
"""

from __future__ import annotations

import os
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from hopper import HOPPER, relative_error
from torch import Tensor

pytest.importorskip("triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not INTERPRETED and not HOPPER, reason="no Hopper card and no interpreter"),
]
DEVICE = "cpu" if INTERPRETED else "cuda"
KIND = torch.float16 if INTERPRETED else torch.bfloat16  # the interpreter does not multiply bfloat16
TILES = [(128, 64, 64, 4, 5), (64, 32, 128, 4, 4), (128, 128, 64, 8, 3)]


@pytest.fixture
def many() -> ModuleType:
    from omnitts_cli.kernels.triton import many_rows

    return many_rows


def random(*shape: int, kind: torch.dtype = KIND) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE, kind)


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("rows", [65, 130, 256])
def test_products(many: ModuleType, tile: tuple[int, ...], rows: int) -> None:
    x, weight = random(rows, 1, 512), random(512, 512) / 512**0.5
    wanted = x.float() @ weight.float().T
    made = many.linear(x, weight, many.Tile(*tile))
    assert made.shape == (rows, 1, 512)
    assert relative_error(made, wanted) < 4e-3
    parts = many.parted(x, weight, many.Tile(*tile, parts=4))
    assert parts.shape == (4, rows, 512) and parts.dtype == torch.float32
    assert relative_error(parts.sum(0), wanted[:, 0]) < 1e-4
    assert relative_error(parts[1], x[:, 0, 128:256].float() @ weight[:, 128:256].float().T) < 1e-4
    gate, up = wanted.chunk(2, -1)
    assert relative_error(many.gated(x, weight, many.Tile(*tile)), F.silu(gate) * up) < 8e-3


def test_what_does_not_suit_is_left_to_the_other_kernels(many: ModuleType) -> None:
    small, large = many.Tile(64, 64, 64, 4, 5), many.Tile(128, 64, 64, 4, 5, parts=2)
    tiles, weight = {(512, 128): small, (512, 192): large}, random(256, 512, kind=torch.bfloat16)

    def tile(rows: int, width: int = 512, of: Tensor = weight, kind: torch.dtype = torch.bfloat16) -> object:
        return many.tile_of(tiles, width, random(rows, 512, kind=kind), of)

    assert tile(65) is tile(128) is small
    assert tile(129) is tile(192) is large
    assert tile(64) is tile(193) is tile(128, 256) is tile(128, kind=torch.float32) is None
    assert tile(128, of=weight[:224]) is None  # gate and up would share a tile
    assert tile(128, of=weight.view(-1)[: 96 * 256].view(256, 96)) is None  # not a whole number of turns
