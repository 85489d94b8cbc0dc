"""Quieten: what the last layer says above the teacher's band goes, what it says within stays."""

from __future__ import annotations

import math

import torch

from omnitts_cli.training.quieten import Fit, quieten
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.shapes import build_codec
from omnitts_cli.training.teacher import SAMPLE_RATE


def tones(*hertz: float, samples: int = 24_000) -> torch.Tensor:
    time = torch.arange(samples, dtype=torch.float64) / SAMPLE_RATE
    return torch.stack([torch.sin(2 * math.pi * one * time) for one in hertz])


def test_a_tone_above_the_band_is_found_and_left_out() -> None:
    old = torch.tensor([1.0, 0.5, 0.1, 0.0]).double()
    fit = Fit(4)
    fit.add(torch.cat([tones(1000, 5000, 11_000), torch.ones(1, 24_000).double()]), old)
    new = fit.solve(old)
    assert torch.allclose(new[:2], old[:2], atol=1e-4) and abs(new[2]) < 1e-3
    assert abs(fit.above(old) - 10 * math.log10(0.01 / 1.26)) < 0.1
    assert fit.above(new) < fit.above(old) - 40


def test_a_codec_grows_quiet_where_the_teacher_is(small: Recipe) -> None:
    torch.manual_seed(0)
    codec = build_codec(small.codec)
    kept = {name: tensor.clone() for name, tensor in (codec.encoder.state_dict() | codec.decoder.state_dict()).items()}
    sounds = [0.3 * tones(300 * (n + 1), 2000, samples=12 * 1920).sum(0).float() for n in range(6)]
    before, after = quieten(codec, sounds)
    assert after < before - 6
    changed = {
        name
        for name, tensor in (codec.encoder.state_dict() | codec.decoder.state_dict()).items()
        if not torch.equal(tensor, kept[name])
    }
    assert changed == {"closing.conv.weight", "closing.conv.bias"}
