"""Products of many rows through the copy engine against plain operations."""

from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from codec_case import DEVICE, HOPPER_OR_INTERPRETER, INTERPRETED
from hopper import relative_error
from torch import Tensor

from omnitts_cli.kernels.tiles import Tile

pytest.importorskip("triton")
pytestmark = HOPPER_OR_INTERPRETER
KIND = torch.float16 if INTERPRETED else torch.bfloat16  # the interpreter does not multiply bfloat16
TILES = [Tile(64, 64, 4, 5, rows=128), Tile(32, 128, 4, 4, rows=64), Tile(128, 64, 8, 3, rows=128)]


@pytest.fixture
def many() -> ModuleType:
    from omnitts_cli.kernels.triton import many_rows

    return many_rows


def random(*shape: int, kind: torch.dtype = KIND) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE, kind)


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("rows", [65, 130, 256])
def test_products(many: ModuleType, tile: Tile, rows: int) -> None:
    x, weight = random(rows, 1, 512), random(512, 512) / 512**0.5
    wanted = x.float() @ weight.float().T
    made = many.linear(x, weight, tile)
    assert made.shape == (rows, 1, 512)
    assert relative_error(made, wanted) < 4e-3
    parts = many.parted(x, weight, tile._replace(parts=4))
    assert parts.shape == (4, rows, 512) and parts.dtype == torch.float32
    assert relative_error(parts.sum(0), wanted[:, 0]) < 1e-4
    assert relative_error(parts[1], x[:, 0, 128:256].float() @ weight[:, 128:256].float().T) < 1e-4
    gate, up = wanted.chunk(2, -1)
    assert relative_error(many.gated(x, weight, tile), F.silu(gate) * up) < 8e-3
