"""Experts: appending the shared expert to the others changes nothing, and a stack may have experts instead of an
MLP."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels.plain import rms_norm
from omnitts_cli.kernels.plain_experts import mixture
from omnitts_cli.models.experts import Experts
from omnitts_cli.models.layers import Stack
from omnitts_cli.models.shapes import ExpertShape, StackShape

SHAPE = ExpertShape(count=8, chosen=3, inner=24, shared=40)
STACK = StackShape(
    hidden=32, inner=0, layers=2, heads=4, kv_heads=2, head_dim=8, eps=1e-6, rope_theta=1e6, experts=SHAPE
)


def made(shape: ExpertShape) -> Experts:
    torch.manual_seed(3)
    experts = Experts(32, shape).requires_grad_(False)
    for weight in experts.parameters():
        weight.mul_(10)
    return experts


def rows(count: int) -> Tensor:
    return torch.randn(count, 32, generator=torch.Generator().manual_seed(count))


@pytest.mark.parametrize("width", [16, 24, 40, 48], ids=lambda width: f"{width} wide")
def test_the_shared_expert_processes_all_rows_whatever_its_width(width: int) -> None:
    experts, x = made(replace(SHAPE, shared=width)), rows(9)
    others = replace(experts.block(), router=experts.router, gate_up=experts.gate_up.unflatten(0, (8, -1)))
    others = replace(others, down=experts.down.unflatten(0, (8, -1)))
    gate, up = F.linear(x, experts.shared_gate_up).chunk(2, -1)
    share = F.linear(x, experts.shared_gate).sigmoid()
    whole = mixture(x, others) + share * F.linear(F.silu(gate) * up, experts.shared_down)
    torch.testing.assert_close(mixture(x, experts.block()), whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shared", [0, 16, 48])
def test_folded_is_unfolded(shared: int) -> None:
    experts, x, norm = made(replace(SHAPE, shared=shared)), rows(5).view(1, 5, 32), torch.rand(32) + 0.5
    before = experts(x, norm, 1e-6)
    torch.testing.assert_close(before, x + mixture(rms_norm(x, norm, 1e-6), experts.block()))
    experts.merge_shared()
    assert torch.equal(experts(x, norm, 1e-6), before)
    assert {name for name, _ in experts.named_parameters()} == {"router", "gate_up", "down"}


def test_a_stack_with_experts_gives_the_same_step_by_step_and_whole() -> None:
    torch.manual_seed(1)
    stack = Stack(STACK).requires_grad_(False)
    x = torch.randn(2, 7, 32)
    whole, slots = stack(x), torch.tensor([1, 0])
    cache = stack.cache(2, 8, "cpu", torch.float32)
    steps = [stack.cached(x[:, t : t + 1], torch.full((2, 1), t), slots, cache, 8)[:, 0] for t in range(x.shape[1])]
    torch.testing.assert_close(torch.stack(steps, 1), whole, rtol=1e-4, atol=1e-5)
