"""Attention over the cache equals its plain twin, for frames and prompts, ragged lengths and shared slots."""

from __future__ import annotations

import pytest
import torch
from frame_table import close
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.models.layers import angles

pytestmark = pytest.mark.gpu
CAPACITY, SLOTS, EPS = 160, 5, 1e-6


@pytest.mark.parametrize("heads", [(4, 2, 16), (16, 8, 128), (3, 3, 64)], ids=["small", "released", "alone"])
@pytest.mark.parametrize(
    "starts, rows", [([0], 1), ([7, 0, 131], 1), ([64, 63, 65, 1], 1), ([5, 0], 2), ([40, 3], 21)], ids=str
)
def test_attend_cached(
    heads: tuple[int, int, int],
    starts: list[int],
    rows: int,
    where: torch.device,
    dtype: torch.dtype,
) -> None:
    from omnitts_cli.kernels.triton.attention import attend_cached

    queries, kv, depth = heads
    made = torch.Generator().manual_seed(sum(starts) + rows)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=made).to(where, dtype)

    qkv = random(len(starts), rows, (queries + 2 * kv) * depth)
    q_weight, k_weight = random(depth).abs() + 0.5, random(depth).abs() + 0.5
    keys, values = random(SLOTS, kv, CAPACITY, depth), random(SLOTS, kv, CAPACITY, depth)
    positions = (torch.tensor(starts)[:, None] + torch.arange(rows)).to(where)
    slots = torch.tensor([4, 0, 3, 1][: len(starts)], device=where)
    cos, sin = angles(torch.arange(CAPACITY, device=where), depth, 1e6)
    rest = (slots, positions, CAPACITY)

    plain_keys, plain_values = keys.clone(), values.clone()
    truth = plain.attend_cached(qkv, q_weight, k_weight, EPS, cos, sin, plain_keys, plain_values, *rest)
    fast = attend_cached(qkv, q_weight, k_weight, EPS, cos, sin, keys, values, *rest)
    close(fast, truth)
    close(keys, plain_keys)
    assert torch.equal(values, plain_values)
