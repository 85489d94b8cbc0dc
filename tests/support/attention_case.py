"""Random cases of attention over the cache, for kernels that must equal the plain version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from frame_table import close
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.models.layers import angles

SLOTS, EPS = 5, 1e-6


def check_attend_cached(
    attend_cached: Callable[..., Tensor],
    heads: tuple[int, int, int],
    starts: Sequence[int],
    rows: int,
    *,
    capacity: int,
    longest: int,
    where: torch.device,
    dtype: torch.dtype,
) -> None:
    """Asserts equal outputs and caches. `heads`: of queries, of keys, and their width; `longest`: positions to read."""
    queries, kv, depth = heads
    made = torch.Generator().manual_seed(sum(starts) + rows)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=made).to(where, dtype)

    qkv = random(len(starts), rows, (queries + 2 * kv) * depth)
    q_weight, k_weight = random(depth).abs() + 0.5, random(depth).abs() + 0.5
    keys, values = random(SLOTS, kv, capacity, depth), random(SLOTS, kv, capacity, depth)
    positions = (torch.tensor(starts)[:, None] + torch.arange(rows)).to(where)
    slots = torch.tensor([4, 0, 3, 1][: len(starts)], device=where)
    cos, sin = angles(torch.arange(capacity, device=where), depth, 1e6)
    rest: tuple[Any, ...] = (slots, positions, longest)

    plain_keys, plain_values = keys.clone(), values.clone()
    truth = plain.attend_cached(qkv, q_weight, k_weight, EPS, cos, sin, plain_keys, plain_values, *rest)
    fast = attend_cached(qkv, q_weight, k_weight, EPS, cos, sin, keys, values, *rest)
    close(fast, truth)
    close(keys, plain_keys)
    assert torch.equal(values, plain_values)
