"""A stack as one operation: which slots ask together, and what goes layer by layer. Equality: cpu/test_equal.py."""

import tables
import torch

from omnitts_cli.kernels.cpu.stack import FusedStack, _Places
from omnitts_cli.models.layers import Stack
from omnitts_cli.models.shapes import StackShape

ROWS = FusedStack.most_rows + 1
SHAPE = StackShape(hidden=24, inner=40, layers=3, heads=6, kv_heads=2, head_dim=8, eps=1e-6, rope_theta=1e4)


def test_slots_far_apart_ask_alone() -> None:
    cos, sin = torch.ones(2, 600, 4)
    slots = torch.tensor([4, 5, 6, 8])
    for places, sides in (([9, 9, 9, 9], 2), ([9, 40, 99, 99], 2), ([9, 500, 501, 501], 3)):
        made = _Places.of(torch.tensor(places)[:, None], slots, cos, sin)
        assert len(made.sides) == sides and max(side.width for side in made.sides) == max(places) + 1


def test_many_rows_and_what_is_not_float32_go_layer_by_layer() -> None:
    torch.manual_seed(0)
    stack = Stack(SHAPE, tables.PYTHON).requires_grad_(False)
    stack.fuse()
    assert stack.fused is not None
    given, found = (torch.ones(1, ROWS, SHAPE.hidden), torch.arange(ROWS)[None], torch.tensor([0])), []
    for fused in (stack.fused, None):
        stack.fused = fused
        found.append(stack.cached(*given, stack.cache(1, ROWS, "cpu", torch.float32), ROWS))
    assert torch.equal(*found)
    stack.bfloat16().fuse()
    assert stack.fused is None
