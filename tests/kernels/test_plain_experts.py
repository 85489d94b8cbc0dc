"""Plain experts: one meaning in every form, alone or among others."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels.ops import ExpertBlock
from omnitts_cli.kernels.plain_experts import FEW, everyone, gathered, grouped, mixture, route

HIDDEN, INNER, COUNT = 32, 24, 8
BOUND = {torch.float32: 2e-6, torch.bfloat16: 2e-2}


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def block(
    always: int = 2, renormalised: bool = True, chosen: int = 3, dtype: torch.dtype = torch.float32
) -> ExpertBlock:
    return ExpertBlock(
        router=(random(COUNT + (always > 0), HIDDEN, seed=1) * 0.2).to(dtype),
        gate_up=(random(COUNT + always, 2 * INNER, HIDDEN, seed=2) * 0.2).to(dtype),
        down=(random(COUNT + always, HIDDEN, INNER, seed=3) * 0.2).to(dtype),
        count=COUNT,
        chosen=chosen,
        renormalised=renormalised,
    )


def rows(count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return random(count, HIDDEN, seed=count).to(dtype)


def one_by_one(at: ExpertBlock, x: Tensor) -> Tensor:
    """What the block means, without any of its code: [N, H] -> [N, H] float64."""
    router, gate_up, down = (weight.double() for weight in (at.router, at.gate_up, at.down))
    out = []

    def said(row: Tensor, expert: int) -> Tensor:
        into = gate_up[expert]
        return down[expert] @ (F.silu(into[:INNER] @ row) * (into[INNER:] @ row))

    for row in x.double():
        chance = (router[:COUNT] @ row).softmax(0)
        best = chance.argsort(descending=True)[: at.chosen]
        whole = chance[best].sum() if at.renormalised else 1.0
        made = torch.stack([chance[e] / whole * said(row, int(e)) for e in best]).sum(0)
        for expert in range(COUNT, len(down)):
            made = made + (router[COUNT] @ row).sigmoid() * said(row, expert)
        out.append(made)
    return torch.stack(out)


@pytest.mark.parametrize("count", [1, FEW, FEW + 1, 40])
@pytest.mark.parametrize("at", [block(), block(always=0), block(renormalised=False)], ids=["whole", "alone", "raw"])
def test_the_block_is_what_it_means(at: ExpertBlock, count: int) -> None:
    x = rows(count)
    torch.testing.assert_close(mixture(x, at).double(), one_by_one(at, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 2, 9, 64])
def test_all_forms_are_equal(count: int, dtype: torch.dtype) -> None:
    at, x = block(always=0, dtype=dtype), rows(count, dtype)
    weights, chosen = route(x, at)
    forms = [form(x, weights.to(dtype), chosen, at.gate_up, at.down) for form in (gathered, grouped, everyone)]
    for other in forms[1:]:
        assert (other - forms[0]).abs().max() <= BOUND[dtype] * forms[0].abs().max()


def test_an_expert_without_rows_and_one_with_all_rows() -> None:
    at, x = block(always=0, dtype=torch.bfloat16), rows(FEW + 3, torch.bfloat16)
    chosen = torch.tensor([[5, 0, 7]]).expand(len(x), -1)
    weights = torch.full(chosen.shape, 1 / 3, dtype=x.dtype)
    few, many = (form(x, weights, chosen, at.gate_up, at.down) for form in (gathered, grouped))
    assert (few - many).abs().max() <= BOUND[torch.bfloat16] * few.abs().max()


def test_routing_is_float32_whatever_the_rows_are() -> None:
    """Two experts that bfloat16 scores cannot tell apart: the one with the larger score is chosen all the same."""
    at = block(chosen=1, dtype=torch.bfloat16)
    router = torch.zeros_like(at.router)
    router[2, :2], router[6, :2] = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 2**-10])
    weights, chosen = route(torch.full((1, HIDDEN), 4.0, dtype=torch.bfloat16), replace(at, router=router))
    assert chosen.item() == 6 and weights.dtype == torch.float32


def test_neighbours_change_nothing() -> None:
    at, x = block(), rows(30)
    alone = torch.cat([mixture(row[None], at) for row in x])
    torch.testing.assert_close(mixture(x, at), alone, rtol=1e-5, atol=1e-5)
    assert torch.equal(mixture(x.view(5, 6, HIDDEN), at), mixture(x, at).view(5, 6, HIDDEN))


@pytest.mark.parametrize("hidden, inner", [(32, 20), (36, 24)])
def test_widths_that_no_grouped_product_takes(hidden: int, inner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a card, a grouped product's rows are multiples of 16 bytes."""
    gate_up, down = random(COUNT, 2 * inner, hidden, seed=2).bfloat16(), random(COUNT, hidden, inner, seed=3).bfloat16()
    x, weights = random(9, hidden, seed=9).bfloat16(), torch.full((9, 2), 0.5, dtype=torch.bfloat16)
    chosen = torch.tensor([[1, 6]]).expand(9, -1)

    def refuse(*given: Tensor, **more: Tensor) -> Tensor:
        raise RuntimeError("strides should be multiple of 16 bytes")

    monkeypatch.setattr(F, "grouped_mm", refuse)
    made, wanted = (form(x, weights, chosen, gate_up, down) for form in (grouped, gathered))
    assert (made - wanted).abs().max() <= BOUND[torch.bfloat16] * wanted.abs().max()
