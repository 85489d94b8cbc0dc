"""The persistent step of the talker against the plain operations, on a GPU."""

import functools
from typing import Any

import pytest
import tables
import torch
from hopper import NEEDS_HOPPER, captured, layers_of, norm_of, plain_step, relative_error, rotations
from torch import Tensor

from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels.cuda import layout
from omnitts_cli.kernels.cuda import talker as cuda
from omnitts_cli.kernels.cuda.talker import fuse_step
from omnitts_cli.kernels.ops import LayerWeights

pytestmark = NEEDS_HOPPER
LAYERS, CAPACITY = 4, 2200
PLACES = (0, 1, 15, 16, 17, 126, 127, 128, 129, 700, 1023, 1024, 1025, 2199)


@functools.cache
def weights(blocks: int, scale: float = 1.0) -> tuple[list[LayerWeights], Tensor]:
    """Random layers of a released talker's shape, and the final norm."""
    torch.manual_seed(blocks)
    return layers_of(blocks, LAYERS, scale=scale), norm_of(1024 * blocks)


@functools.cache
def kernel(blocks: int, hold: int) -> Any:
    layers, norm = weights(blocks)
    made = fuse_step(layers, norm, 8, 1e-6, {"HOLD": hold} if hold else {})
    assert made is not None
    return made


@functools.cache
def turns() -> tuple[Tensor, Tensor]:
    return rotations(CAPACITY)


def cache() -> tuple[Tensor, Tensor]:
    """Keys and values of nine slots, all positions filled."""
    torch.manual_seed(3)
    keys, values = torch.randn(2, LAYERS, 9, 8, CAPACITY, 128, device="cuda").bfloat16()
    return keys, values


def rows_of(blocks: int, count: int) -> Tensor:
    torch.manual_seed(count)
    return torch.randn(count, 1024 * blocks, device="cuda").bfloat16()


def row_at(blocks: int, place: int) -> tuple[Tensor, Tensor, Tensor]:
    """A random row at `place` of slot 1: row, position, slot."""
    torch.manual_seed(place)
    row = torch.randn(1, 1024 * blocks, device="cuda").bfloat16()
    return row, torch.tensor([place], device="cuda"), torch.tensor([1], device="cuda")


def step(blocks: int, place: int, keys: Tensor, values: Tensor) -> Tensor:
    """The kernel's hidden state for a random row at `place` of slot 1."""
    return kernel(blocks, 0)(*row_at(blocks, place), *turns(), keys, values)


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("place", PLACES)
def test_a_step_is_as_near_to_float32_as_one_of_the_plain_operations(blocks: int, place: int) -> None:
    keys, values = cache()
    before = keys.clone()
    given = weights(blocks), *row_at(blocks, place)
    exact = plain_step(*given, keys.float(), values.float())
    rounded_keys, rounded_values = keys.clone(), values.clone()
    rounded = plain_step(*given, rounded_keys, rounded_values)
    made = step(blocks, place, keys, values)
    assert relative_error(made, exact) < min(1.5e-2, 1.1 * relative_error(rounded, exact))
    assert relative_error(keys[:, 1, :, place], rounded_keys[:, 1, :, place]) < 1.5e-2
    assert relative_error(values[:, 1, :, place], rounded_values[:, 1, :, place]) < 1.5e-2
    keys[:, 1, :, place] = before[:, 1, :, place]
    assert torch.equal(keys, before)  # nothing else is written


@pytest.mark.parametrize("blocks", [1, 2])
def test_bits_repeat_while_warps_are_delayed_at_random(blocks: int) -> None:
    """One row at two places, and eight rows."""
    keys, values = cache()
    eight = rows_of(blocks, 8), torch.arange(8, device="cuda") * 150, torch.arange(8, device="cuda")
    for given in (row_at(blocks, 40), row_at(blocks, 1500), eight):
        want = kernel(blocks, 0)(*given, *turns(), keys, values)
        bad = torch.zeros((), device="cuda", dtype=torch.int64)
        for _ in range(60):
            bad += (kernel(blocks, 0x7FF)(*given, *turns(), keys, values) != want).any()
        assert int(bad) == 0


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_captured_step_is_an_eager_one(blocks: int) -> None:
    keys, values = cache()
    want = step(blocks, 300, keys, values)
    row, position, slot = row_at(blocks, 300)
    made, graph = captured(lambda: kernel(blocks, 0)(row, position, slot, *turns(), keys, values))
    for _ in range(3):
        made.zero_()
        graph.replay()
        assert torch.equal(made, want)


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_rows_of_other_slots_and_positions(blocks: int, count: int) -> None:
    """Each row is near to its own step, keys and values are written for it alone, and neighbours change nothing."""
    keys, values = cache()
    at = torch.tensor([700, 0, 63, 64, 2199, 1, 130, 300], device="cuda")
    slots = torch.tensor([4, 1, 7, 0, 2, 8, 3, 6], device="cuda")
    rows = rows_of(blocks, 8)
    whole_keys, whole_values = keys.clone(), values.clone()
    whole = kernel(blocks, 0)(rows, at, slots, *turns(), whole_keys, whole_values)
    some_keys, some_values = keys.clone(), values.clone()
    some = kernel(blocks, 0)(rows[:count], at[:count], slots[:count], *turns(), some_keys, some_values)
    assert torch.equal(some, whole[:count])
    for r in range(count):
        own_keys, own_values = keys.clone(), values.clone()
        own = kernel(blocks, 0)(rows[r : r + 1], at[r : r + 1], slots[r : r + 1], *turns(), own_keys, own_values)
        assert relative_error(some[r : r + 1], own) < 1e-2
        assert relative_error(some_keys[:, slots[r], :, at[r]], own_keys[:, slots[r], :, at[r]]) < 1e-2
        assert relative_error(some_values[:, slots[r], :, at[r]], own_values[:, slots[r], :, at[r]]) < 1e-2
        for made, before in ((some_keys, keys), (some_values, values)):
            made[:, slots[r], :, at[r]] = before[:, slots[r], :, at[r]]
    assert torch.equal(some_keys, keys)
    assert torch.equal(some_values, values)


def test_a_sum_out_of_range_is_an_error() -> None:
    layers, norm = weights(1, scale=50_000.0)
    made = fuse_step(layers, norm, 8, 1e-6)
    assert made is not None
    made.check()
    keys, values = cache()
    row = torch.ones(1, 1024, device="cuda").bfloat16()
    zero = torch.zeros(1, dtype=torch.int64, device="cuda")
    made(row, zero, zero, *turns(), keys, values)
    torch.cuda.synchronize()
    with pytest.raises(DeviceError, match="exceed the range"):
        made.check()


def test_what_does_not_suit_is_left_to_the_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    layers, norm = weights(1)
    choose = tables.card("triton nvrtc").fuse_step
    assert choose(layers, norm, 8, 1e-5) is choose(layers, norm, 4, 1e-6) is None
    monkeypatch.setattr(cuda, "PROGRAMS", 1024)  # a grid that does not fit
    monkeypatch.setattr(layout, "PROGRAMS", 1024)
    assert fuse_step(layers, norm, 8, 1e-6) is None
