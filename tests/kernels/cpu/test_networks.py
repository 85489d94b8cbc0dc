"""Stacks, draws and frames in C give what the plain operations give, and a row never depends on its neighbours."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import tables
import torch

from omnitts_cli.kernels.cpu import library, networks
from omnitts_cli.models.layers import Stack
from omnitts_cli.models.shapes import StackShape

SHAPE = StackShape(hidden=24, inner=40, layers=3, heads=6, kv_heads=2, head_dim=8, eps=1e-6, rope_theta=1e4)
LARGE = StackShape(hidden=192, inner=384, layers=2, heads=3, kv_heads=1, head_dim=64, eps=1e-6, rope_theta=1e4)
SHAPES = [SHAPE, replace(SHAPE, heads=2, kv_heads=1), replace(SHAPE, heads=2), replace(SHAPE, hidden=37), LARGE]


@pytest.fixture(params=["avx512", "avx2", "plain"])
def native(request: pytest.FixtureRequest) -> library.Library:
    if request.param not in library.usable():
        pytest.skip("not compiled, or not of this processor")
    found = library.load(request.param)
    assert found is not None and found.variant == request.param
    return found


def stack_of(shape: StackShape, native: library.Library) -> Stack:
    made = torch.Generator().manual_seed(0)
    ops = tables.native(native.variant)
    stack = Stack(shape, ops).requires_grad_(False)
    for weight in stack.parameters():
        weight.copy_(1 + 0.3 * torch.randn(weight.shape, generator=made))
        if weight.dim() == 2:
            weight.sub_(1).mul_(3.4 / weight.shape[1] ** 0.5)
    stack.fuse()
    assert isinstance(stack.fused, networks.NativeStack)
    return stack


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 5, 40])
@pytest.mark.parametrize("slots", [[2], [3, 0, 1], [0, 1, 2, 3]])
def test_hidden_states_and_cache(shape: StackShape, slots: list[int], rows: int, native: library.Library) -> None:
    stack, made = stack_of(shape, native), torch.Generator().manual_seed(len(slots) + rows)
    fast = stack.cache(4, 60, "cpu", torch.float32)
    fast.keys.normal_(generator=made)
    fast.values.normal_(generator=made)
    truth = copy.deepcopy(fast)
    x = torch.randn(len(slots), rows, shape.hidden, generator=made)
    starts = torch.randint(0, 20, (len(slots), 1), generator=made)
    asked = (x, starts + torch.arange(rows), torch.tensor(slots))
    said = torch.from_numpy(stack.fused(*asked, fast.cos, fast.sin, fast.keys, fast.values))
    stack.fused = None
    torch.testing.assert_close(said, stack.cached(*asked, truth, 60), rtol=1e-4, atol=2e-5)
    torch.testing.assert_close(fast.keys, truth.keys, rtol=1e-4, atol=2e-5)
    torch.testing.assert_close(fast.values, truth.values, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("shape", [SHAPE, LARGE], ids=str)
def test_a_row_has_the_same_bits_alone_and_among_others(shape: StackShape, native: library.Library) -> None:
    """One row or forty, one prompt or four: no sum is taken in another order."""
    stack, made = stack_of(shape, native), torch.Generator().manual_seed(1)
    whole = stack.cache(4, 40, "cpu", torch.float32)
    rows, slots = torch.randn(4, 40, shape.hidden, generator=made), torch.arange(4)
    places = torch.arange(40).expand(4, -1)
    held = whole.cos, whole.sin, whole.keys, whole.values
    together = stack.fused(rows, places, slots, *held)
    for size in (1, 3, 7, 13):
        alone = stack.cache(4, 40, "cpu", torch.float32)
        held = alone.cos, alone.sin, alone.keys, alone.values
        for slot in (0, 3):
            for start in range(0, 40, size):
                part = slice(start, start + size)
                said = stack.fused(rows[slot : slot + 1, part], places[:1, part], slots[slot : slot + 1], *held)
                assert np.array_equal(said[0], together[slot, part])
        assert torch.equal(alone.keys[:, 0], whole.keys[:, 0])


@pytest.mark.parametrize("rows", [1, 2, 9, 23, 40])
def test_words_give_the_bits_of_floats(rows: int, native: library.Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is exact in bfloat16 is kept in half the memory, and no result changes by a bit."""
    stack = stack_of(LARGE, native).bfloat16().float()
    x = torch.randn(1, rows, LARGE.hidden, generator=torch.Generator().manual_seed(rows))
    said, sizes = [], []
    for kept in (networks.words, lambda weight: None):
        monkeypatch.setattr(networks, "words", kept)
        stack.fuse()
        assert isinstance(stack.fused, networks.NativeStack)
        sizes.append(sum(one.nbytes for one in stack.fused._kept if isinstance(one, np.ndarray) and one.ndim == 3))
        cache = stack.cache(1, 40, "cpu", torch.float32)
        held = cache.cos, cache.sin, cache.keys, cache.values
        said.append(stack.fused(x, torch.arange(rows)[None], torch.tensor([0]), *held))
    assert np.array_equal(*said) and 2 * sizes[0] == sizes[1]


def test_what_is_large_or_not_float32_is_refused(native: library.Library, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = stack_of(SHAPE, native)
    stack.bfloat16().fuse()
    assert stack.fused is None
    monkeypatch.setattr("omnitts_cli.kernels.calls.SMALL", 1000)
    stack.float().fuse()
    assert stack.fused is None
