"""Layers for any number of rows on a GPU: the bits of eight rows, near to float32, captured as eager."""

import functools
from typing import Any

import pytest
import tables
import torch
from hopper import (
    NEEDS_HOPPER,
    captured,
    layers_of,
    norm_of,
    normal,
    plain_step,
    predictor_parts,
    relative_error,
    rotations,
)
from torch import Tensor

from omnitts_cli.kernels.cuda.rows import TILED_ROWS
from omnitts_cli.kernels.ops import LayerWeights

pytestmark = NEEDS_HOPPER
LAYERS, CAPACITY, MOST = 3, 1000, 130
COUNTS = (*range(1, 66), 96, 128, MOST)


@functools.cache
def talker(blocks: int) -> tuple[Any, list[LayerWeights], Tensor]:
    from omnitts_cli.kernels.cuda.talker import fuse_step

    torch.manual_seed(blocks)
    layers, norm = layers_of(blocks, LAYERS), norm_of(1024 * blocks)
    made = fuse_step(layers, norm, 8, 1e-6, exact=True)
    assert made is not None
    return made, layers, norm


@functools.cache
def predictor() -> Any:
    from omnitts_cli.kernels.cuda.predictor import fuse_predictor

    made = fuse_predictor(predictor_parts(), exact=True)
    assert made is not None
    return made


@functools.cache
def talker_inputs(blocks: int) -> tuple[Tensor, ...]:
    torch.manual_seed(7)
    rows = torch.randn(MOST, 1024 * blocks, device="cuda").bfloat16()
    positions = torch.randint(0, CAPACITY, (MOST,), device="cuda")
    keys, values = torch.randn(2, LAYERS, MOST + 1, 8, CAPACITY, 128, device="cuda").bfloat16()
    return rows, positions, torch.randperm(MOST, device="cuda"), keys, values


@functools.cache
def predictor_inputs() -> tuple[Tensor, ...]:
    torch.manual_seed(8)
    made: list[Tensor] = [torch.randn(MOST, 1024, device="cuda").bfloat16() for _ in range(2)]
    made += [torch.randint(0, most, (MOST,), device="cuda") for most in (2048, 2**62, 1000)]
    heat, mass = torch.rand(2, MOST, device="cuda")
    return (*made, 0.1 + heat, torch.randint(0, 100, (MOST,), device="cuda"), 0.5 + mass)


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_step_has_the_same_bits_for_every_count(blocks: int) -> None:
    """Any rows, at any place in the batch: hidden states, keys and values."""
    made, (rows, positions, slots, keys, values) = talker(blocks)[0], talker_inputs(blocks)
    hidden, kept = torch.empty_like(rows), (keys.clone(), values.clone())
    for start in range(0, MOST, 8):
        some = slice(start, start + 8)
        hidden[some] = made(rows[some], positions[some], slots[some], *rotations(CAPACITY), *kept)
    for count in COUNTS:
        places, mine = torch.randperm(MOST, device="cuda")[:count], (keys.clone(), values.clone())
        found = made(rows[places], positions[places], slots[places], *rotations(CAPACITY), *mine)
        assert torch.equal(found, hidden[places]), count
        for ours, want in zip(mine, kept, strict=True):
            assert torch.equal(ours[:, slots[places]], want[:, slots[places]]), count
    made.check()


@pytest.mark.parametrize("blocks", [1, 2])
def test_sixteen_rows_without_the_option_have_the_bits_of_eight(blocks: int) -> None:
    (_, layers, norm), (rows, positions, slots, keys, values) = talker(blocks), talker_inputs(blocks)
    usual = tables.card("triton nvrtc").fuse_step(layers, norm, 8, 1e-6)
    assert usual is not None and usual.most_rows == 16

    def step(count: int) -> Tensor:
        here = keys.clone(), values.clone()
        return usual(rows[:count], positions[:count], slots[:count], *rotations(CAPACITY), *here)

    found = step(16)
    assert torch.equal(found[:8], step(8))
    usual.check()


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_step_is_near_to_float32(blocks: int) -> None:
    made, layers, norm = talker(blocks)
    rows, positions, slots, keys, values = talker_inputs(blocks)
    given = (layers, norm), rows, positions, slots
    exact = plain_step(*given, keys.float(), values.float())
    found = made(rows, positions, slots, *rotations(CAPACITY), keys.clone(), values.clone())
    bound = 1.1 * relative_error(plain_step(*given, keys.clone(), values.clone()), exact)
    assert relative_error(found, exact) < bound


def test_a_frame_has_the_same_bits_for_every_count() -> None:
    made, given = predictor(), predictor_inputs()

    def frame(*places: Tensor) -> tuple[Tensor, Tensor]:
        some = [x[places[0]] for x in given]
        logits = torch.full((15, len(some[0]), 2048), torch.nan, device="cuda", dtype=torch.bfloat16)
        return made(*some, logits), logits

    parts = [frame(torch.arange(start, min(start + 8, MOST), device="cuda")) for start in range(0, MOST, 8)]
    codes, logits = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts], 1)
    for count in COUNTS:
        places = torch.randperm(MOST, device="cuda")[:count]
        found_codes, found_logits = frame(places)
        assert torch.equal(found_logits, logits[:, places]), count
        assert torch.equal(found_codes, codes[places]), count
    made.check()


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_product_of_another_shape_has_the_same_bits_for_every_count(blocks: int) -> None:
    from omnitts_cli.kernels.cuda.rows import linear

    torch.manual_seed(9)
    x, weight, bias = normal(300, 1024 * blocks, std=1), normal(3072, 1024 * blocks), normal(3072, std=1)
    whole = linear(x, weight, bias)
    want = x.double() @ weight.double().T + bias.double()
    assert float((whole - want).norm() / want.norm()) < 3e-3
    for count in (1, 2, 15, 16, 17, 64, 299):
        places = torch.randperm(300, device="cuda")[:count]
        assert torch.equal(linear(x[places], weight, bias), whole[places])


@pytest.mark.parametrize("blocks", [1, 2])
def test_prompts_in_large_tiles_have_the_bits_of_few_rows(blocks: int) -> None:
    """All products of the layers, with heads in place of attention; captured as eager."""
    made = talker(blocks)[0]
    torch.manual_seed(10)
    rows = torch.randn(163, 8, 1024 * blocks, device="cuda").bfloat16()

    def prompts(some: Tensor) -> Tensor:
        found = made.prompts(some, lambda _, qkv: qkv[..., :2048].contiguous())
        assert found is not None
        return found

    whole = prompts(rows)
    assert bool(whole.isfinite().all()) and len(whole.flatten(0, 1)) > 3 * TILED_ROWS
    for count in (1, 7, 31, 32, 33, 80, 162):
        places = torch.randperm(163, device="cuda")[:count]
        assert torch.equal(prompts(rows[places]), whole[places]), count
    again, graph = captured(lambda: prompts(rows))
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(again, whole)
    made.check()


@pytest.mark.parametrize("blocks", [1, 2])
def test_captured_is_eager(blocks: int) -> None:
    """Kernels that start early read nothing before the kernel in front has ended: 50 replays, all equal."""
    made, (rows, positions, slots, keys, values) = talker(blocks)[0], talker_inputs(blocks)
    frame, given = predictor(), predictor_inputs()
    for count in (17, 64, MOST):
        mine, given_now = (keys.clone(), values.clone()), [x[:count] for x in given]

        def run(count: int = count, mine: Any = mine, given_now: Any = given_now) -> tuple[Tensor, Tensor]:
            hidden = made(rows[:count], positions[:count], slots[:count], *rotations(CAPACITY), *mine)
            return hidden, frame(*given_now)

        eager, (again, graph) = run(), captured(run)
        for _ in range(50):
            graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(a, b) for a, b in zip(again, eager, strict=True)), count
