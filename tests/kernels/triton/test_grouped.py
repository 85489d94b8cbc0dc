"""Experts of long prompts equal their plain version: choices, places, and everything between the products."""

import pytest
import tables
import torch
from frame_table import close, experts_case
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import ExpertBlock
from omnitts_cli.kernels.plain_experts import route

pytestmark = pytest.mark.gpu
EPS = 1e-6
# experts, chosen, inner, hidden
SIZES = [(8, 3, 24, 64), (13, 1, 32, 96), (16, 8, 40, 32)]


def made(
    rows: int, count: int, chosen: int, inner: int, hidden: int, where: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor, ExpertBlock]:
    return experts_case(rows, count, 0, chosen, inner, hidden, where, dtype)


def product(rows: Tensor, weights: Tensor, offs: Tensor) -> Tensor:
    """A grouped product, group by group."""
    out, begin = rows.new_empty(rows.shape[0], weights.shape[2]), 0
    for weight, end in zip(weights, offs.tolist(), strict=True):
        out[begin:end] = rows[begin:end] @ weight
        begin = end
    assert begin == len(rows)
    return out


def in_float32(rows: Tensor, router: Tensor) -> Tensor:
    return rows.float() @ router.float().T


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("rows", [1, 31, 32, 70, 300])
def test_experts_are_the_plain_ones(
    rows: int, size: tuple[int, ...], where: torch.device, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnitts_cli.kernels.triton import grouped

    monkeypatch.setattr(grouped, "BLOCKS", 4)  # the counts of several turns are added up
    x, norm, block = made(rows, *size, where, dtype)
    wide = ExpertBlock(*(w.double() for w in (block.router, block.gate_up, block.down)), *size[:2], size[1] > 1)
    normed = plain.rms_norm(x, norm, EPS)
    weights, chosen = route(normed, block)
    truth = x.double()
    for k in range(size[1]):
        for row in range(rows):
            gate, up = (wide.gate_up[chosen[row, k]] @ normed[row].double()).chunk(2)
            truth[row] += weights[row, k].double() * (wide.down[chosen[row, k]] @ (torch.nn.functional.silu(gate) * up))
    close(grouped.experts(x, norm, EPS, block, in_float32, product), truth)


@pytest.mark.parametrize("tile", [1, 32])
@pytest.mark.parametrize("rows", [1, 9, 70])
def test_choices_are_the_plain_ones(rows: int, tile: int, where: torch.device, dtype: torch.dtype) -> None:
    from omnitts_cli.kernels.triton import grouped

    x, norm, block = made(rows, 13, 6, 16, 96, where, dtype)
    inputs, scores = grouped.row_scores(x, norm, EPS, block)
    close(inputs, plain.rms_norm(x, norm, EPS))
    assert (scores - in_float32(inputs, block.router)).abs().max() < 1e-4
    counts = torch.full((-(-rows // tile), 13), -1, dtype=torch.int32, device=where)
    marks = torch.full((13, rows), -1, dtype=torch.int32, device=where)
    picks, gates = grouped.choose(scores, block, tile, counts, marks)
    weights, chosen = route(inputs, block)
    assert torch.equal(picks.long(), chosen)
    assert (gates - weights).abs().max() < 1e-5
    assert torch.equal(counts.sum(0).long(), chosen.flatten().bincount(minlength=13))
    expected = torch.zeros_like(marks)
    expected.scatter_(0, chosen.T, torch.arange(1, 7, device=where, dtype=torch.int32)[:, None].expand(-1, rows))
    assert torch.equal(marks, expected)


def test_a_row_that_is_not_finite_leaves_the_others_alone(where: torch.device) -> None:
    from omnitts_cli.kernels.triton import grouped

    x, norm, block = made(40, 8, 3, 24, 64, where, torch.float32)
    good = grouped.experts(x, norm, EPS, block, in_float32, cut)
    x[7] = float("nan")
    bad = grouped.experts(x, norm, EPS, block, in_float32, cut)
    others = torch.arange(40, device=where) != 7
    assert not bad[7].isfinite().any()
    assert torch.allclose(bad[others], good[others], atol=1e-5)


def cut(rows: Tensor, weights: Tensor, offs: Tensor) -> Tensor:
    """A grouped product in float64: the rounding of float32 depends on the number of rows in a group."""
    return product(rows.double(), weights.double(), offs).to(rows.dtype)


@pytest.mark.parametrize("rows", [384, 1000])
def test_the_released_sizes(rows: int, where: torch.device) -> None:
    """With the library's grouped product, against the plain version."""
    if where.type == "cpu":
        pytest.skip("too large for the interpreter")
    long = tables.card().long

    x, norm, block = made(rows, 128, 8, 768, 2048, where, torch.bfloat16)
    fast, truth = long.experts(x, norm, EPS, block), plain.experts(x, norm, EPS, block)
    difference = (fast.float() - truth.float()).abs()
    assert difference.mean() < 0.01
    # a few rows choose another expert, because scores are nearly equal
    assert (difference.amax(1) > 0.25).float().mean() < 0.05
