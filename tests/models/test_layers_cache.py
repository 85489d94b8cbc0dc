"""The cache: prefixes go in and out unchanged, slots stay apart, rotation is that of the position."""

import math
import os

import numpy as np
import pytest
import torch

from omnitts_cli.models.layers import KVCache, angles
from omnitts_cli.models.shapes import same_angles


def filled(slots: int, capacity: int) -> KVCache:
    cache = KVCache.empty((2, slots, 3, capacity, 4), angles(torch.arange(capacity), 4, 1e4), "cpu", torch.float32)
    generator = torch.Generator().manual_seed(0)
    for part in (cache.keys, cache.values):
        part.copy_(torch.randn(part.shape, generator=generator))
    return cache


def test_a_prefix_taken_and_copied_is_the_same_and_nothing_else_moves() -> None:
    cache = filled(4, 9)
    before = cache.keys.clone()
    kept = cache.prefix(5, 2)
    assert torch.equal(kept[0][:, 0], cache.keys[:, 2, :, :5]) and torch.equal(cache.keys, before)
    cache.copy_prefix(kept, 3, torch.tensor([0]))
    for part in (cache.keys, cache.values):
        assert torch.equal(part[:, 0, :, :3], part[:, 2, :, :3])
    assert torch.equal(cache.keys[:, 0, :, 3:], before[:, 0, :, 3:])
    assert torch.equal(cache.keys[:, 1:], before[:, 1:])


def test_clear_empties_one_slot() -> None:
    cache = filled(3, 5)
    cache.keys[:, 1] = float("nan")
    cache.clear(1)
    assert not cache.keys[:, 1].any() and not cache.values[:, 1].any()
    assert cache.keys[:, [0, 2]].all() and cache.values[:, [0, 2]].all()


def test_capacity_is_that_of_a_slot() -> None:
    assert filled(2, 5).capacity == 5


def test_rotation_of_each_position() -> None:
    cache = KVCache.empty((1, 1, 1, 3000, 8), angles(torch.arange(3000), 8, 1e6), "cpu", torch.bfloat16)
    assert cache.cos.dtype == torch.float32  # bfloat16 knows no positions beyond 256
    at = torch.tensor([0, 1, 2999])
    speeds = torch.tensor([1e6 ** -(i / 4) for i in range(4)], dtype=torch.float64)
    exact = at[:, None].double() * speeds
    torch.testing.assert_close(cache.cos[at].double(), exact.cos(), rtol=0, atol=3e-4)
    torch.testing.assert_close(cache.sin[at].double(), exact.sin(), rtol=0, atol=3e-4)
    cos, sin = angles(at, 8, 1e6)
    assert torch.equal(cos, cache.cos[at]) and torch.equal(sin, cache.sin[at])


@pytest.mark.parametrize(("head_dim", "theta"), [(64, 1e4), (128, 1e6)])
def test_rotation_with_the_same_bits_everywhere(head_dim: int, theta: float) -> None:
    """Rounded once from what the standard library says."""
    positions = np.array([*range(50), 999, 4096, 32_767, 99_999])
    cos, sin = same_angles(positions, head_dim, theta)
    rates = [np.float32(theta ** (-2 * i / head_dim)) for i in range(head_dim // 2)]
    for of, made in ((math.cos, cos), (math.sin, sin)):
        exact = [[of(np.float32(at) * rate) for rate in rates] for at in positions.tolist()]
        assert np.array_equal(made, np.array(exact).astype(np.float32))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_cache_of_its_own() -> None:
    cache = filled(2, 5)
    before = cache.keys.clone()
    child = os.fork()
    if child == 0:
        cache.keys.fill_(7)
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0) and torch.equal(cache.keys, before)


def test_memory_that_is_not_there_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        KVCache.empty((1, 1, 1, 1 << 44, 64), (torch.ones(1), torch.ones(1)), "cpu", torch.float32)
