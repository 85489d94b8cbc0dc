"""The fused draw gives the codes of its plain version, for every setting, and the same bits of chance."""

import pytest
import torch
from frame_table import SETTINGS

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Normed

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("size", [24, 300, 2048])
def test_choose(size: int, setting: tuple[float, int, float], where: torch.device, dtype: torch.dtype) -> None:
    from omnitts_cli.kernels.triton.draw import choose

    rows = 64
    made = torch.Generator().manual_seed(size)
    logits = (torch.randn(rows, size, generator=made) * 3).to(where, dtype)
    seeds = torch.randint(-(2**62), 2**62, (rows,), generator=made).to(where)
    frames = torch.randint(0, 9000, (rows,), generator=made).to(where)
    temperature, top_k, top_p = setting
    columns = (
        torch.full((rows,), temperature, device=where),
        torch.full((rows,), top_k, device=where),
        torch.full((rows,), top_p, device=where),
    )
    for group in (0, 7):
        truth = plain.choose(logits, seeds, frames, group, *columns)
        assert torch.equal(choose(logits, seeds, frames, group, *columns), truth)


def test_settings_are_columns(where: torch.device) -> None:
    from omnitts_cli.kernels.triton.draw import choose

    made = torch.Generator().manual_seed(3)
    logits = (torch.randn(len(SETTINGS), 64, generator=made) * 3).to(where)
    seeds, frames = torch.arange(len(SETTINGS)).to(where), torch.zeros(len(SETTINGS), dtype=torch.int64).to(where)
    columns = [torch.tensor(column).to(where) for column in zip(*SETTINGS, strict=True)]
    assert torch.equal(choose(logits, seeds, frames, 1, *columns), plain.choose(logits, seeds, frames, 1, *columns))


@pytest.mark.parametrize("rows", [1, 5])
def test_choose_row(rows: int, where: torch.device, dtype: torch.dtype) -> None:
    """Codes and their rows of a table; beyond the table its last row counts."""
    from omnitts_cli.kernels.triton.draw import choose, choose_row

    made = torch.Generator().manual_seed(rows)
    logits = (torch.randn(rows, 96, generator=made) * 3).to(where, dtype)
    logits[0, 95] = 100.0
    lines, weight = torch.randn(90, 24, generator=made), torch.rand(24, generator=made) + 0.5
    table = Normed(lines.to(where, dtype), weight.to(where, dtype), 1e-6)
    seeds, frames = torch.arange(rows, device=where), torch.arange(rows, device=where)
    columns = (torch.ones(rows, device=where), torch.full((rows,), 20, device=where), torch.ones(rows, device=where))
    codes, found = choose_row(logits, seeds, frames, 3, *columns, table)
    assert torch.equal(codes, choose(logits, seeds, frames, 3, *columns)) and codes[0] == 95
    assert found is not None and torch.equal(found.rows, table.rows[codes.clamp(max=89)])
    assert choose_row(logits, seeds, frames, 3, *columns, None)[1] is None
