"""Autocorrelations show the pitch of a voice, and neither its phase nor its level."""

import math

import pytest
import torch
from torch import Tensor

from omnitts_cli.training.periodicity import Periodicity, pitches
from omnitts_cli.training.teacher import SAMPLE_RATE


def buzz(hertz: float, turned: float = 0.0) -> Tensor:
    time = torch.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    partials = [torch.sin(2 * math.pi * hertz * n * time + turned * n * n) / n for n in range(1, 8)]
    return torch.stack(partials).sum(0)[None] * 0.1


@pytest.mark.parametrize("hertz", [80.0, 113.3, 220.5, 330.0])
def test_pitch_is_found_within_two_cents(hertz: float) -> None:
    octaves, voiced = pitches(*Periodicity()(buzz(hertz)))
    assert bool(voiced.all())
    assert (octaves - math.log2(hertz / 64)).abs().max() * 1200 < 2


def test_noise_and_silence_are_unvoiced() -> None:
    torch.manual_seed(0)
    measure = Periodicity()
    for sound in (torch.randn(1, 12000) * 0.1, torch.zeros(1, 12000)):
        assert not pitches(*measure(sound))[1].any()


def test_phase_and_level_count_for_nothing_and_pitch_for_much() -> None:
    measure = Periodicity()
    apart = {
        name: float((measure(buzz(120.0))[0] - measure(sound)[0]).abs().mean())
        for name, sound in (("phase", buzz(120.0, 1.3)), ("level", buzz(120.0) / 4), ("pitch", buzz(127.0)))
    }
    assert apart["level"] < 0.01 and apart["phase"] < 0.05 and apart["pitch"] > 3 * apart["phase"]


def test_its_gradient_leads_to_the_sound() -> None:
    torch.manual_seed(0)
    measure, wanted = Periodicity(), buzz(120.0)
    made = (buzz(120.0) + 0.05 * torch.randn(1, SAMPLE_RATE // 2)).requires_grad_()
    (measure(made)[0] - measure(wanted)[0]).abs().mean().backward()
    assert made.grad is not None and made.grad.isfinite().all() and made.grad.any()
