"""The fused experts equal their plain version in float64: for few rows and many, with and without shared ones."""

from dataclasses import fields, replace

import pytest
import tables
import torch
from codec_case import INTERPRETED
from frame_table import close, experts_case
from hopper import captured
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import ExpertBlock
from omnitts_cli.kernels.plain_experts import everyone, route

pytestmark = pytest.mark.gpu
EPS = 1e-6
# experts, of them shared, chosen, inner, hidden
SIZES = [(10, 2, 3, 32, 64), (6, 0, 1, 96, 32), (13, 1, 6, 64, 160)]
ROWS = [1, 3, 9, 70, 300]


@pytest.fixture(params=[(rows, *size) for rows in ROWS for size in SIZES], ids=str)
def case(request: pytest.FixtureRequest, where: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor, ExpertBlock]:
    """x, norm, block."""
    rows, every, always, chosen, inner, hidden = request.param
    return experts_case(rows, every, always, chosen, inner, hidden, where, dtype)


def said(x: Tensor, norm: Tensor, block: ExpertBlock) -> Tensor:
    """What the chosen and the shared experts add to x, in float64; the plain version chooses."""
    normed = plain.rms_norm(x, norm, EPS)
    weights, chosen = route(normed, block)
    wide = replace(
        block, **{f.name: getattr(block, f.name).double() for f in fields(block) if f.name in ("gate_up", "down")}
    )
    exact = x.double() * torch.rsqrt(x.double().pow(2).mean(-1, keepdim=True) + EPS) * norm.double()
    every = torch.arange(block.count, len(block.down), device=x.device).expand(len(x), -1)
    share = (normed.double() @ block.router[block.count :].double().T).sigmoid().expand(-1, every.shape[1])
    chosen, weights = torch.cat([chosen, every], 1), torch.cat([weights.double(), share], 1)
    return x.double() + everyone(exact, weights, chosen, wide.gate_up, wide.down)


def test_experts_are_the_plain_ones(case: tuple[Tensor, Tensor, ExpertBlock]) -> None:
    experts = tables.card().experts

    x, norm, block = case
    close(experts(x, norm, EPS, block), said(x, norm, block))
    close(plain.experts(x, norm, EPS, block), said(x, norm, block))


def test_both_forms_agree_and_rows_keep_to_themselves(where: torch.device) -> None:
    from omnitts_cli.kernels.triton.mixture import few, together

    x, norm, block = experts_case(20, 10, 2, 3, 32, 64, where, torch.float32)
    alone = few(x, norm, EPS, block)
    torch.testing.assert_close(together(x, norm, EPS, block), alone, rtol=1e-5, atol=1e-5)
    assert torch.equal(torch.cat([few(row[None], norm, EPS, block) for row in x]), alone)


@pytest.mark.parametrize("rows", [2, 20])
def test_a_row_of_nan_does_not_change_the_others(where: torch.device, rows: int) -> None:
    experts = tables.card().experts

    x, norm, block = experts_case(rows, 10, 2, 3, 32, 64, where, torch.float32)
    clean = experts(x, norm, EPS, block)
    x[1] = float("nan")
    out = experts(x, norm, EPS, block)
    assert out[1].isnan().all()
    assert torch.equal(torch.cat([out[:1], out[2:]]), torch.cat([clean[:1], clean[2:]]))


@pytest.mark.skipif(INTERPRETED, reason="graphs need a GPU")
@pytest.mark.parametrize("rows", [2, 20])
def test_captured_is_eager(where: torch.device, rows: int) -> None:
    """The experts of a row change from replay to replay; a captured step must not keep the first ones."""
    experts = tables.card().experts

    x, norm, block = experts_case(rows, 10, 2, 3, 32, 64, where, torch.bfloat16)
    experts(x, norm, EPS, block)
    out, graph = captured(lambda: experts(x, norm, EPS, block))
    for seed in range(4):
        x.copy_(torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)))
        graph.replay()
        assert torch.equal(out, experts(x, norm, EPS, block))


def test_sizes_that_no_tile_divides_go_the_plain_way(where: torch.device) -> None:
    experts = tables.card().experts

    x, norm, block = experts_case(3, 5, 1, 2, 24, 40, where, torch.float32)
    assert torch.equal(experts(x, norm, EPS, block), plain.experts(x, norm, EPS, block))
