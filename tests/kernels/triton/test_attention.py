"""Attention over the cache equals the plain version, for frames and prompts, ragged lengths and shared slots."""

from __future__ import annotations

import pytest
import tables
import torch
from attention_case import check_attend_cached

pytestmark = pytest.mark.gpu
CAPACITY = 160


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
    attend_cached = tables.card().attend_cached
    check_attend_cached(
        attend_cached, heads, starts, rows, capacity=CAPACITY, longest=CAPACITY, where=where, dtype=dtype
    )
