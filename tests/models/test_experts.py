"""Experts: one meaning in every form, alone or among others, and inside a stack."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.models.experts import FEW, Experts, ExpertShape, everyone, gathered, grouped
from omnitts_cli.models.layers import Stack, StackShape

SHAPE = ExpertShape(count=8, chosen=3, inner=24, shared=16)
STACK = StackShape(
    hidden=32, inner=0, layers=2, heads=4, kv_heads=2, head_dim=8, eps=1e-6, rope_theta=1e6, experts=SHAPE
)
BOUND = {torch.float32: 2e-6, torch.bfloat16: 2e-2}


def block(shape: ExpertShape = SHAPE, hidden: int = 32, dtype: torch.dtype = torch.float32) -> Experts:
    torch.manual_seed(3)
    made = Experts(hidden, shape).to(dtype).requires_grad_(False)
    for weight in made.parameters():
        weight.mul_(10)
    made.prepare()
    return made


def rows(count: int, dtype: torch.dtype = torch.float32, hidden: int = 32) -> Tensor:
    return torch.randn(count, hidden, generator=torch.Generator().manual_seed(count)).to(dtype)


def one_by_one(block: Experts, x: Tensor) -> Tensor:
    """What the block means, without any of its code: [N, H] -> [N, H] float64."""
    at, out = block.shape, []
    wide = {name: weight.double() for name, weight in block.named_parameters()}
    gate_up, down = wide["gate_up"].view(at.count, -1, x.shape[1]), wide["down"].view(at.count, x.shape[1], -1)

    def mlp(row: Tensor, into: Tensor, back: Tensor) -> Tensor:
        half = len(into) // 2
        return back @ (F.silu(into[:half] @ row) * (into[half:] @ row))

    for row in x.double():
        chance = (wide["router"] @ row).softmax(0)
        best = chance.argsort(descending=True)[: at.chosen]
        whole = chance[best].sum() if at.renormalised else 1.0
        made = sum(chance[e] / whole * mlp(row, gate_up[e], down[e]) for e in best)
        if at.shared:
            share = (wide["shared_gate"] @ row).sigmoid()
            made = made + share * mlp(row, wide["shared_gate_up"], wide["shared_down"])
        out.append(made)
    return torch.stack(out)


@pytest.mark.parametrize("count", [1, FEW, FEW + 1, 40])
@pytest.mark.parametrize("shape", [SHAPE, replace(SHAPE, shared=0), replace(SHAPE, renormalised=False)])
def test_the_block_is_what_it_means(shape: ExpertShape, count: int) -> None:
    made, x = block(shape), rows(count)
    torch.testing.assert_close(made(x).double(), one_by_one(made, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 2, 9, 64])
def test_all_forms_are_equal(count: int, dtype: torch.dtype) -> None:
    made, x = block(dtype=dtype), rows(count, dtype)
    weights, chosen = made.route(x)
    forms = [form(x, weights.to(dtype), chosen, *made.matrices()) for form in (gathered, grouped, everyone)]
    for other in forms[1:]:
        assert (other - forms[0]).abs().max() <= BOUND[dtype] * forms[0].abs().max()


def test_an_expert_nobody_hears_and_one_that_all_hear() -> None:
    made = block(dtype=torch.bfloat16)
    x = rows(FEW + 3, torch.bfloat16)
    chosen = torch.tensor([[5, 0, 7]]).expand(len(x), -1)
    weights = torch.full(chosen.shape, 1 / 3, dtype=x.dtype)
    few, many = (form(x, weights, chosen, *made.matrices()) for form in (gathered, grouped))
    assert (few - many).abs().max() <= BOUND[torch.bfloat16] * few.abs().max()


def test_routing_is_float32_whatever_the_rows_are() -> None:
    """Two experts that bfloat16 scores cannot tell apart: the louder one is heard all the same."""
    made = block(replace(SHAPE, chosen=1), dtype=torch.bfloat16)
    made.router.zero_()
    made.router[2, 0], made.router[6, 0] = 1.0, 1.0 + 2**-10
    x = torch.zeros(1, 32, dtype=torch.bfloat16)
    x[0, 0] = 4.0
    weights, chosen = made.route(x)
    assert chosen.item() == 6 and weights.dtype == torch.float32


def test_neighbours_change_nothing() -> None:
    made, x = block(), rows(30)
    alone = torch.cat([made(row[None]) for row in x])
    torch.testing.assert_close(made(x), alone, rtol=1e-5, atol=1e-5)
    assert torch.equal(made(x.view(5, 6, 32)), made(x).view(5, 6, 32))


def test_a_stack_with_experts_steps_as_it_hears_the_whole() -> None:
    torch.manual_seed(1)
    stack = Stack(STACK).requires_grad_(False)
    x = torch.randn(2, 7, 32)
    whole, slots = stack(x), torch.tensor([1, 0])
    cache = stack.cache(2, 8, "cpu", torch.float32)
    steps = [stack.cached(x[:, t : t + 1], torch.full((2, 1), t), slots, cache, 8)[:, 0] for t in range(x.shape[1])]
    torch.testing.assert_close(torch.stack(steps, 1), whole, rtol=1e-4, atol=1e-5)
