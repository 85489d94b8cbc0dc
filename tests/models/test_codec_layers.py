"""Causal layers: a chunked call is a whole call, and the sums are those of the plain convolutions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.models.codec_encoder import ClipConv
from omnitts_cli.models.codec_layers import (
    FEW,
    CausalConv,
    CausalRise,
    ConvNeXt,
    ResidualUnit,
    Snake,
    convolve,
    snake,
    spread,
)


def layers() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {
        "conv": CausalConv(4, 6, 7), "dilated": CausalConv(4, 4, 7, dilation=9),
        "depthwise": CausalConv(4, 4, 7, groups=4), "rise": CausalRise(4, 3, 2, 3), "long rise": CausalRise(4, 3, 4, 3),
        "unit": ResidualUnit(4, 7, 3), "convnext": ConvNeXt(4, 7, 2, 1e-6),
    }  # fmt: skip


@pytest.mark.parametrize("name", layers().keys())
def test_chunks_are_the_whole(name: str) -> None:
    layer = layers()[name].requires_grad_(False)
    x = torch.randn(2, 4, 40)
    start = torch.zeros(2, *layer.past_shape)
    whole, end = layer(x, start)
    past, parts = start, []
    for chunk in x.split([1, 2, 20, 1, 16], -1):
        part, past = layer(chunk, past)
        parts.append(part)
    torch.testing.assert_close(torch.cat(parts, -1), whole)
    torch.testing.assert_close(past, end)
    assert past.shape == start.shape


def test_zeros_before_the_start() -> None:
    layer = CausalConv(4, 6, 7, dilation=2).requires_grad_(False)
    x = torch.randn(1, 4, 20)
    torch.testing.assert_close(layer(x, torch.zeros(1, *layer.past_shape))[0], layer.conv(F.pad(x, (12, 0))))


@pytest.mark.parametrize(("blocks", "rate"), [(2, 8), (2, 3), (1, 2), (4, 3)])
def test_rise_drops_what_needs_the_future(blocks: int, rate: int) -> None:
    layer = CausalRise(4, 3, blocks, rate).requires_grad_(False)
    x = torch.randn(1, 4, 9)
    out, _ = layer(x, torch.zeros(1, *layer.past_shape))
    torch.testing.assert_close(out, layer.conv(x)[..., : 9 * rate])


@pytest.mark.parametrize("columns", [1, 2, FEW, FEW + 1, 3 * FEW])
def test_few_columns_and_many_are_the_same_sums(columns: int) -> None:
    torch.manual_seed(0)
    conv, rise = nn.Conv1d(5, 4, 3, dilation=2), nn.ConvTranspose1d(5, 4, 6, 3)
    x = torch.randn(2, 5, columns + 4)
    torch.testing.assert_close(convolve(x, conv), conv(x), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(spread(x, rise), rise(x)[..., : 3 * (columns + 4)], atol=1e-5, rtol=1e-5)


def test_tail_does_not_hold_the_chunk() -> None:
    layer = CausalConv(2, 2, 3)
    _, past = layer(torch.randn(1, 2, 5000), torch.zeros(1, 2, 2))
    assert past.untyped_storage().nbytes() == 2 * 2 * 4


def test_snake() -> None:
    layer, x = Snake(3), torch.randn(2, 3, 8)
    with torch.no_grad():
        layer.alpha.uniform_(-1, 1)
        layer.beta.uniform_(-1, 1)
        a, b = layer.alpha.exp()[:, None], layer.beta.exp()[:, None]
        wanted = x + torch.sin(x * a) ** 2 / (b + 1e-9)
        torch.testing.assert_close(layer(x), wanted)
        layer.eval().freeze_factors()
        torch.testing.assert_close(layer(x), wanted)


def test_snake_turns_in_float32() -> None:
    """A bfloat16 phase of hundreds of radians would be rounded by whole radians."""
    x, scale = torch.tensor([[[7.03125]]], dtype=torch.bfloat16), torch.tensor([[90.7]])
    got = snake(x, scale, torch.ones(1, 1))
    wanted = 7.03125 + torch.sin(torch.tensor(7.03125 * 90.7)) ** 2
    assert got.dtype == torch.bfloat16
    assert abs(float(got) - float(wanted)) < 0.03


@pytest.mark.parametrize("length", [1, 7, 8, 9])
def test_clip_convolution_pads_both_ends(length: int) -> None:
    layer = ClipConv(1, 1, 4, 2, bias=False, repeat_ends=True).requires_grad_(False)
    layer.conv.weight.fill_(0.25)
    # constant sound stays constant: its end values are repeated
    torch.testing.assert_close(layer(torch.ones(1, 1, length)), torch.ones(1, 1, (length + 1) // 2))


def test_clip_convolution_looks_back_only() -> None:
    layer = ClipConv(1, 1, 3, dilation=2).requires_grad_(False)
    x = torch.randn(1, 1, 10)
    later: Tensor = x.clone()
    later[..., 6:] += 1.0
    assert torch.equal(layer(x)[..., :6], layer(later)[..., :6])
    assert not torch.equal(layer(x)[..., 6:], layer(later)[..., 6:])
