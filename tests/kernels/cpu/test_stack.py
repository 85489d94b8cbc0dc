"""A stack as one operation gives the hidden states and fills the cache as layer by layer does."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import tables
import torch

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cpu.stack import FusedStack, _Places
from omnitts_cli.models.layers import Stack
from omnitts_cli.models.shapes import StackShape

FEW = FusedStack.most_rows

SHAPE = StackShape(hidden=24, inner=40, layers=3, heads=6, kv_heads=2, head_dim=8, eps=1e-6, rope_theta=1e4)


def stack_of(shape: StackShape = SHAPE) -> Stack:
    made = torch.Generator().manual_seed(0)
    stack = Stack(shape, tables.PYTHON).requires_grad_(False)
    for weight in stack.parameters():
        weight.copy_(1 + 0.3 * torch.randn(weight.shape, generator=made))
        if weight.dim() == 2:
            weight.sub_(1).mul_(0.7)
    stack.fuse()
    return stack


@pytest.mark.parametrize("shape", [SHAPE, replace(SHAPE, heads=2, kv_heads=1), replace(SHAPE, heads=2)], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("slots", [[0], [2], [3, 0, 1], [0, 1, 2, 3]])
@pytest.mark.parametrize("apart", [0, 2, 14])
def test_hidden_states_and_cache(
    shape: StackShape, slots: list[int], apart: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At one place, or some places apart: together, some of them together, each alone."""
    monkeypatch.setattr("omnitts_cli.kernels.cpu.stack.NEAR", 5)
    stack, made = stack_of(shape), torch.Generator().manual_seed(len(slots) + rows)
    assert stack.fused is not None
    fast = stack.cache(4, 20, "cpu", torch.float32)
    fast.keys.normal_(generator=made)
    fast.values.normal_(generator=made)
    truth = copy.deepcopy(fast)
    x = torch.randn(len(slots), rows, shape.hidden, generator=made)
    starts = torch.randint(0, apart + 1, (len(slots), 1), generator=made)
    asked = (x, starts + torch.arange(rows), torch.tensor(slots))
    said = stack.cached(*asked, fast, 20)
    stack.fused = None
    stack.ops = plain.OPS
    torch.testing.assert_close(said, stack.cached(*asked, truth, 20), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fast.keys, truth.keys, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fast.values, truth.values, rtol=1e-4, atol=1e-5)


def test_slots_far_apart_ask_alone() -> None:
    cos, sin = torch.ones(2, 600, 4)
    slots = torch.tensor([4, 5, 6, 8])
    for places, sides in (([9, 9, 9, 9], 2), ([9, 40, 99, 99], 2), ([9, 500, 501, 501], 3)):
        made = _Places.of(torch.tensor(places)[:, None], slots, cos, sin)
        assert len(made.sides) == sides and max(side.width for side in made.sides) == max(places) + 1


def test_many_rows_and_what_is_not_float32_go_layer_by_layer() -> None:
    stack = stack_of()
    kept = stack.fused
    cache, slot = stack.cache(1, FEW + 1, "cpu", torch.float32), torch.tensor([0])
    many = stack.cached(torch.ones(1, FEW + 1, SHAPE.hidden), torch.arange(FEW + 1)[None], slot, cache, FEW + 1)
    stack.fused = None
    fresh = stack.cache(1, FEW + 1, "cpu", torch.float32)
    alone = stack.cached(torch.ones(1, FEW + 1, SHAPE.hidden), torch.arange(FEW + 1)[None], slot, fresh, FEW + 1)
    assert kept is not None and torch.equal(many, alone)
    stack.bfloat16().fuse()
    assert stack.fused is None


def test_large_weights_are_not_kept_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnitts_cli.kernels.calls.SMALL", 1000)
    assert stack_of().fused is None
