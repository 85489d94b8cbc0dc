"""The mel front end against the official package, and its filters against what they should be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from golden_set import case
from tiny_models import error

from omnitts_cli.models.shapes import MelShape
from omnitts_cli.models.speaker import hertz, log_mel, mel_filters, mels

SHAPE = MelShape()


def test_official_spectrum() -> None:
    golden = case("base/speaker_frontend").tensors
    assert error(log_mel(golden["audio"], SHAPE), golden["log_mel"]) < 1e-5


@pytest.mark.parametrize("samples", [385, 511, 512, 24_000])
def test_columns(samples: int) -> None:
    assert log_mel(torch.zeros(2, samples), SHAPE).shape == (2, SHAPE.bands, samples // SHAPE.hop)


def test_silence_is_as_quiet_as_it_gets() -> None:
    assert torch.allclose(log_mel(torch.zeros(1, 2048), SHAPE), torch.tensor(1e-5).log())


def test_scale_is_linear_up_to_the_knee_and_turns_back() -> None:
    assert mels(np.array([0.0, 200.0, 1000.0, 6400.0])).tolist() == pytest.approx([0.0, 3.0, 15.0, 42.0])
    ladder = np.linspace(0.0, 12_000.0, 200)
    np.testing.assert_allclose(hertz(mels(ladder)), ladder, atol=1e-8)


def test_a_tone_is_loudest_in_its_band() -> None:
    tone = torch.sin(torch.arange(24_000) * (2 * np.pi * 3000.0 / 24_000))[None]
    loudest = int(log_mel(tone, SHAPE)[0, :, 40].argmax())
    centre = hertz(np.linspace(0.0, mels(np.array([SHAPE.highest]))[0], SHAPE.bands + 2))[loudest + 1]
    assert abs(centre - 3000.0) < 100.0


def test_triangles_have_equal_area() -> None:
    area = mel_filters(SHAPE).sum(1) * SHAPE.sample_rate / SHAPE.window
    assert (area[40:] - 1.0).abs().max() < 0.1  # the narrow low ones fall between bins
