"""Attention over the cache equals the plain version: frames, prompts, ragged lengths, shared slots, long contexts."""

from typing import Any

import pytest
import tables
import torch
from frame_table import close
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.models.layers import angles

pytestmark = pytest.mark.gpu
SLOTS, EPS = 5, 1e-6
STARTS = [([0], 1), ([7, 0, 131], 1), ([64, 63, 65, 1], 1), ([5, 0], 2), ([40, 3], 21)]
LONG_STARTS = [([0], 1), ([399], 1), ([7, 0, 131, 64], 1), ([5, 0], 8), ([0], 70), ([130], 90)]
CASES = [
    *((160, 160, heads, *case) for heads in ((4, 2, 16), (16, 8, 128), (3, 3, 64)) for case in STARTS),
    *((400, max(starts) + rows, heads, starts, rows) for heads in ((6, 2, 16), (32, 4, 128))
      for starts, rows in LONG_STARTS),
]  # fmt: skip
"""Positions of a slot, positions that are read, heads of queries and of keys and their width, first positions, rows."""


@pytest.mark.parametrize(("capacity", "longest", "heads", "starts", "rows"), CASES, ids=str)
def test_attend_cached(
    capacity: int, longest: int, heads: tuple[int, int, int], starts: list[int], rows: int, where: torch.device,
    dtype: torch.dtype,
) -> None:  # fmt: skip
    """Outputs and caches; the operations for long contexts with 400 positions."""
    queries, kv, depth = heads
    made = torch.Generator().manual_seed(sum(starts) + rows)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=made).to(where, dtype)

    qkv = random(len(starts), rows, (queries + 2 * kv) * depth)
    q_weight, k_weight = random(depth).abs() + 0.5, random(depth).abs() + 0.5
    keys, values = random(SLOTS, kv, capacity, depth), random(SLOTS, kv, capacity, depth)
    positions = (torch.tensor(starts)[:, None] + torch.arange(rows)).to(where)
    slots = torch.tensor([4, 0, 3, 1][: len(starts)], device=where)
    given = qkv, q_weight, k_weight, EPS, *angles(torch.arange(capacity, device=where), depth, 1e6)
    rest: tuple[Any, ...] = (slots, positions, longest)

    plain_keys, plain_values = keys.clone(), values.clone()
    truth = plain.attend_cached(*given, plain_keys, plain_values, *rest)
    ops = tables.card() if capacity == 160 else tables.card().long
    close(ops.attend_cached(*given, keys, values, *rest), truth)
    close(keys, plain_keys)
    assert torch.equal(values, plain_values)
