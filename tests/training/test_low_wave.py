"""The wave of the lowest harmonics shows where pulses lie, and nothing of loudness."""

import math

import pytest
import torch
from torch import Tensor

from omnitts_cli.training.low_wave import DOWN, LowWaves, out_of_phase
from omnitts_cli.training.teacher import SAMPLE_RATE


def tone(hertz: float, later: float = 0.0) -> Tensor:
    time = torch.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    return 0.1 * torch.sin(2 * math.pi * hertz * (time - later))[None]


@pytest.mark.parametrize(("hertz", "sizes"), [(150.0, (0.1, 0.0)), (1000.0, (0.0, 0.1)), (4000.0, (0.0, 0.0))])
def test_each_band_has_its_own_part_of_the_sound(hertz: float, sizes: tuple[float, ...]) -> None:
    for wave, down, size in zip(LowWaves()(tone(hertz)), DOWN, sizes, strict=True):
        assert wave.shape[1] == SAMPLE_RATE // 2 // down
        inner = wave[:, wave.shape[1] // 4 : -wave.shape[1] // 4]
        assert abs(float(inner.square().mean().sqrt()) - size / math.sqrt(2)) < 2e-3


def test_a_place_counts_and_loudness_does_not() -> None:
    waves, true = LowWaves(), tone(150.0) + tone(1000.0)
    apart = [
        float(out_of_phase(waves(made), waves(true)))
        for made in (true, 0.3 * true, tone(150.0, 1e-3) + tone(1000.0), -true)
    ]
    assert apart[0] < 1e-3 and apart[1] < 1e-2
    assert apart[2] == pytest.approx(1 - math.cos(2 * math.pi * 0.15), abs=0.05)
    assert apart[3] == pytest.approx(3.0, abs=0.15)  # 2 for the first band, and half of it for the second


def test_silence_counts_for_nothing_and_gives_no_gradient_that_is_not_finite() -> None:
    waves, made = LowWaves(), torch.zeros(1, 12000, requires_grad=True)
    assert float(out_of_phase(waves(made), waves(torch.zeros(1, 12000))).detach()) == 0.0
    out_of_phase(waves(made), waves(tone(150.0))).backward()
    assert made.grad is not None and made.grad.isfinite().all()
