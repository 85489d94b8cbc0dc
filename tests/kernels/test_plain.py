"""The plain operations: fused forms, rotation, addressed numbers, drawing by the rules. Attention: the golden set."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Normed
from omnitts_cli.models.layers import angles


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


def chi_square(counts: Tensor, expected: Tensor) -> float:
    """Standard deviations above what chance gives; bins that are expected to be rare are put together."""
    rare = expected < 8
    counts = torch.cat([counts[~rare], counts[rare].sum()[None]])
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    kept = expected > 0
    assert not counts[~kept].any(), "something impossible was drawn"
    freedom = max(1, int(kept.sum()) - 1)
    return float(((counts - expected)[kept].pow(2) / expected[kept]).sum() - freedom) / math.sqrt(2 * freedom)


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
