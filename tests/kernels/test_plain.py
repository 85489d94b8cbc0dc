"""The plain operations: rotation, attention over a cache, addressed numbers, and drawing by the rules."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Normed
from omnitts_cli.models.layers import angles
from omnitts_cli.request import COLDEST


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# ---- norms and products


def test_fused_forms_are_their_parts() -> None:
    x, norm, weight, residual = random(3, 2, 8), random(8, seed=1), random(12, 8, seed=2), random(3, 2, 12, seed=3)
    pending, after = Normed(x, norm, 1e-6), random(12, seed=4)
    normed = plain.rms_norm(x, norm, 1e-6)
    torch.testing.assert_close(normed, x / x.pow(2).mean(-1, keepdim=True).add(1e-6).sqrt() * norm)
    assert torch.equal(plain.norm(pending), normed)
    torch.testing.assert_close(plain.norm_linear(pending, weight), normed @ weight.T)
    gate, up = (normed @ weight.T).chunk(2, -1)
    torch.testing.assert_close(plain.norm_swiglu(pending, weight), gate * gate.sigmoid() * up)
    made = plain.linear_add(x, weight, residual, after, 1e-5)
    torch.testing.assert_close(made.rows, residual + x @ weight.T)
    torch.testing.assert_close(plain.norm(made), plain.rms_norm(made.rows, after, 1e-5))


def test_norms_are_wide_inside() -> None:
    """In bfloat16 the mean of squares is still a float32 one: large and small rows come out alike."""
    x = random(4, 4096).bfloat16()
    ones = torch.ones(4096, dtype=torch.bfloat16)
    small, large = plain.rms_norm(x * 2**-6, ones, 0.0), plain.rms_norm(x * 2**6, ones, 0.0)
    assert small.dtype == torch.bfloat16 and torch.equal(small, large)
    torch.testing.assert_close(large.float().pow(2).mean(-1), torch.ones(4), rtol=1e-2, atol=0)


def test_rotation_turns_pairs_and_keeps_lengths() -> None:
    x = random(1, 5, 2, 6)
    at = torch.tensor([[0, 1, 2, 40, 999]])
    turned = plain.rotate(x, *angles(at, 6, 100.0))
    pairs = torch.complex(x[..., :3].double(), x[..., 3:].double())
    speeds = torch.tensor([100.0 ** -(i / 3) for i in range(3)], dtype=torch.float64)
    exact = pairs * torch.polar(torch.ones(1, dtype=torch.float64), at[..., None].double() * speeds)[:, :, None]
    torch.testing.assert_close(turned, torch.cat([exact.real, exact.imag], -1).float(), rtol=0, atol=2e-4)
    assert torch.equal(turned[:, 0], x[:, 0])


# ---- attention


@pytest.mark.parametrize("lengths", [[1], [7, 3], [1, 8, 2, 5]])
@pytest.mark.parametrize("rows", [1, 3])
def test_attention_over_slots_is_attention_over_each_history(lengths: list[int], rows: int) -> None:
    """Rows at different places, slots out of order; what stands in the cache behind a row is not seen."""
    heads, kv, depth, capacity, batch = 4, 2, 8, 12, len(lengths)
    slots = torch.arange(batch).flip(0) * 2
    keys, values = random(2 * batch, kv, capacity, depth), random(2 * batch, kv, capacity, depth, seed=1)
    before = keys.clone()
    qkv = random(batch, rows, (heads + 2 * kv) * depth, seed=2)
    positions = torch.tensor(lengths)[:, None] - 1 + torch.arange(rows)
    norms = random(depth, seed=3), random(depth, seed=4)
    cos, sin = angles(torch.arange(capacity), depth, 1e4)
    width = int(positions.max()) + 1
    out = plain.attend_cached(qkv, *norms, 1e-6, cos, sin, keys, values, slots, positions, width)
    q, k, _ = plain.split_heads(qkv, *norms, 1e-6, cos[positions], sin[positions], kv)
    for b in range(batch):
        own = slots[b]
        assert torch.equal(keys[own, :, positions[b]].transpose(0, 1), k[b])
        assert torch.equal(keys[own, :, : lengths[b] - 1], before[own, :, : lengths[b] - 1])
        for row in range(rows):
            seen = int(positions[b, row]) + 1
            for head in range(heads):
                history = keys[own, head // 2, :seen]
                weights = (history @ q[b, row, head] / math.sqrt(depth)).softmax(0)
                got = out[b, row, head * depth : (head + 1) * depth]
                torch.testing.assert_close(got, weights @ values[own, head // 2, :seen], rtol=1e-4, atol=1e-5)
    others = [slot for slot in range(2 * batch) if slot not in slots]
    assert torch.equal(keys[others], before[others])


def test_a_wider_bound_changes_nothing() -> None:
    qkv, norms = random(2, 1, 6 * 4), (torch.ones(4), torch.ones(4))
    cos, sin = angles(torch.arange(40), 4, 1e4)
    at = torch.tensor([[3], [9]])
    results = []
    for width in (10, 23, 40):
        keys, values = random(2, 1, 40, 4), random(2, 1, 40, 4, seed=1)
        out = plain.attend_cached(qkv, *norms, 1e-6, cos, sin, keys, values, torch.tensor([0, 1]), at, width)
        results.append(out)
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(results[0], results[2])


# ---- addressed numbers

PINNED = [
    [0, 13303482, 13991770, 7960517, 6534689, 2239516],
    [5148153, 9314089, 8360575, 1701536, 2505433, 2688840],
    [1849944, 4130980, 1143496, 10497100, 11356687, 7944983],
]


def test_the_bits_are_pinned() -> None:
    """The same numbers on every device and in every version, so that stored seeds keep their speech."""
    seeds = torch.tensor([0, 1, 42, -1, 2**62, 1234567890123])
    frames = torch.tensor([0, 0, 7, 100, 3, 65535])
    drawn = [[int(x * 2**24) for x in plain.uniform(seeds, frames, group).tolist()] for group in (0, 1, 15)]
    assert drawn == PINNED


def test_a_number_depends_on_its_address_alone() -> None:
    seeds, frames = torch.arange(50) * 7919 - 100, torch.arange(50) % 9
    together = plain.uniform(seeds, frames, 3)
    backwards = plain.uniform(seeds.flip(0), frames.flip(0), 3).flip(0)
    alone = torch.cat([plain.uniform(seeds[i : i + 1], frames[i : i + 1], 3) for i in range(50)])
    assert torch.equal(together, backwards) and torch.equal(together, alone)


def chi_square(counts: Tensor, expected: Tensor) -> float:
    """Standard deviations above what chance gives; bins that are expected to be rare are put together."""
    rare = expected < 8
    counts = torch.cat([counts[~rare], counts[rare].sum()[None]])
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    kept = expected > 0
    assert not counts[~kept].any(), "something impossible was drawn"
    freedom = max(1, int(kept.sum()) - 1)
    return float(((counts - expected)[kept].pow(2) / expected[kept]).sum() - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("axis", ["seed", "frame", "group", "high bits of the seed"])
def test_numbers_are_uniform_along_each_axis(axis: str) -> None:
    count = 60_000
    running = torch.arange(count)
    fixed = torch.full((count,), 5)
    if axis == "seed":
        drawn = plain.uniform(running, fixed, 2)
    elif axis == "frame":
        drawn = plain.uniform(fixed, running, 2)
    elif axis == "group":
        drawn = torch.cat([plain.uniform(running[: count // 60], fixed[: count // 60], group) for group in range(60)])
    else:
        drawn = plain.uniform(running << 32, fixed, 2)
    assert drawn.min() >= 0 and drawn.max() < 1
    assert chi_square(torch.histc(drawn, 100, 0, 1), torch.full((100,), count / 100)) < 5
    pairs = (drawn[:-1] * 10).long() * 10 + (drawn[1:] * 10).long()  # neighbours know nothing of each other
    assert chi_square(torch.bincount(pairs, minlength=100).float(), torch.full((100,), (count - 1) / 100)) < 5


# ---- drawing


def reference(logits: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """What may be drawn with which probability, told step by step for one row without ties."""
    scaled = (logits / temperature).double()
    order = scaled.argsort(descending=True).tolist()
    if top_k:
        order = order[:top_k]
    chances = scaled[order].softmax(0).tolist()
    kept, mass = [], 0.0
    for index, chance in zip(order, chances, strict=True):
        if kept and mass >= top_p and top_p < 1:
            break
        kept.append(index)
        mass += chance
    out = torch.zeros(len(logits), dtype=torch.float64)
    out[kept] = scaled[kept].softmax(0)
    return out


TASTES = [(1.0, 0, 1.0), (0.7, 0, 1.0), (1.3, 5, 1.0), (1.0, 0, 0.6), (0.9, 12, 0.8), (2.0, 1, 1.0), (1.0, 0, 0.0)]


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), TASTES)
def test_codes_are_drawn_as_often_as_they_should_be(temperature: float, top_k: int, top_p: float) -> None:
    count, logits = 40_000, 2 * random(30, seed=5)
    drawn = plain.choose(
        logits.expand(count, -1), torch.arange(count) * 31 + 7, torch.arange(count) % 500, 0,
        torch.full((count,), temperature), torch.full((count,), top_k), torch.full((count,), top_p),
    )  # fmt: skip
    expected = reference(logits, temperature, top_k, top_p).float() * count
    assert chi_square(torch.bincount(drawn, minlength=30).float(), expected) < 5


def test_rows_with_different_settings_share_a_batch() -> None:
    logits = random(len(TASTES) + 1, 30, seed=6)
    tastes = [*TASTES, (0.0, 3, 0.5)]
    columns = [torch.tensor(column) for column in zip(*tastes, strict=True)]
    seeds, frames = torch.arange(len(tastes)), torch.arange(len(tastes)) + 3
    together = plain.choose(logits, seeds, frames, 2, *columns)
    for row in range(len(tastes)):
        one = slice(row, row + 1)
        alone = plain.choose(logits[one], seeds[one], frames[one], 2, *(column[one] for column in columns))
        assert torch.equal(alone, together[one])
    assert together[-1] == logits[-1].argmax()  # temperature 0 is the likeliest, whatever else is asked


@settings(deadline=None)
@given(
    values=st.lists(st.integers(-4, 4), min_size=1, max_size=12),
    temperature=st.sampled_from([0.5, 1.0, 1.7]),
    top_k=st.integers(0, 14),
    top_p=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
)
def test_what_is_kept(values: list[int], temperature: float, top_k: int, top_p: float) -> None:
    """At least the likeliest; ties are kept or dropped together; without ties exactly the reference's."""
    logits = torch.tensor(values, dtype=torch.float32)
    kept = plain.keep_likely(logits[None], torch.tensor([temperature]), torch.tensor([top_k]), torch.tensor([top_p]))[
        0
    ].isfinite()
    assert kept[logits.argmax()]
    for value in set(values):
        assert len(set(kept[logits == value].tolist())) == 1
    if len(set(values)) == len(values):
        assert torch.equal(kept, reference(logits, temperature, top_k, top_p) > 0)
    elif top_p == 1.0 and top_k:
        assert kept.sum() >= min(top_k, len(values))


@pytest.mark.parametrize("top_p", [1.0, 0.5])
def test_temperature_0_takes_the_likeliest_code(top_p: float) -> None:
    logits = 1e4 * torch.randn(64, 300, generator=torch.Generator().manual_seed(5))
    whole, cold = torch.arange(64), torch.full((64,), COLDEST)
    assert torch.equal(plain.choose(logits, whole, whole, 0, cold, whole * 0, cold * 0 + top_p), logits.argmax(-1))


def test_what_is_suppressed_is_never_drawn() -> None:
    count = 20_000
    logits = torch.full((count, 6), float("-inf"))
    logits[:, 2], logits[:, 4] = 0.0, -3.0
    ones = torch.ones(count)
    drawn = plain.choose(
        logits, torch.arange(count), torch.zeros(count, dtype=torch.int64), 0, ones, 0 * ones.long(), ones
    )
    assert set(drawn.tolist()) == {2, 4}
    edges = torch.zeros(2, 6, dtype=torch.float32)  # the very first and the very last place of a draw
    edges[:, [0, 5]] = float("-inf")
    mass = edges.softmax(-1).cumsum(-1)
    for target in (0.0, 1 - 2.0**-24):
        assert int((mass[0] <= target * mass[0, -1]).sum()) in range(1, 5)
