"""The decoder stack: causal, grouped, gated, and the same over a cache as over the whole."""

from __future__ import annotations

import pytest
import torch

from omnitts_cli.models.layers import Stack
from omnitts_cli.models.shapes import StackShape


def stack_of(heads: int = 4, kv_heads: int = 2) -> Stack:
    torch.manual_seed(0)
    made = Stack(StackShape(16, 24, 2, heads, kv_heads, 8, 1e-6, 1e4)).requires_grad_(False)
    for weight in made.parameters():
        weight.copy_(torch.randn(weight.shape) * 0.3)
    return made


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (4, 4), (4, 1), (1, 1)])
def test_cached_is_whole(heads: int, kv_heads: int) -> None:
    stack, rows = stack_of(heads, kv_heads), torch.randn(2, 9, 16)
    whole, cache = stack(rows), stack.cache(2, 9, "cpu", torch.float32)
    slots = torch.tensor([1, 0])
    at = torch.arange(9).expand(2, 9)
    parts = [stack.cached(rows[:, a:b], at[:, a:b], slots, cache, b) for a, b in ((0, 4), (4, 5), (5, 9))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-4, atol=1e-5)


def test_later_frames_have_no_effect() -> None:
    stack, rows = stack_of(), torch.randn(1, 8, 16)
    changed = rows.clone()
    changed[:, 5:] += 1
    before, after = stack(rows), stack(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_earlier_frames_count_in_their_order() -> None:
    """Rotation distinguishes positions: exchanging two earlier rows changes the result."""
    stack, rows = stack_of(), torch.randn(1, 6, 16)
    swapped = rows[:, [0, 3, 2, 1, 4, 5]]
    assert not torch.allclose(stack(rows)[:, 5], stack(swapped)[:, 5], atol=1e-3)


def test_a_stack_learns() -> None:
    """Training walks the same modules: every weight of every layer gets a gradient."""
    stack = stack_of().requires_grad_(True)
    stack(torch.randn(2, 5, 16)).pow(2).sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in stack.parameters())
