"""An F0 curve is changed so that all frames begin at one phase."""

import pytest
import torch

from omnitts_cli.training import kokoro, tract
from omnitts_cli.training.pitch_lock import ENTRY, FRAME, SAMPLE_RATE, STAYS, free, locked


def contour(low: float, high: float) -> torch.Tensor:
    """Two voiced parts with silence around them, F0 rising and falling: [1, T]."""
    time = torch.arange(256) / (SAMPLE_RATE / ENTRY)
    hertz = low + (high - low) * (0.5 + 0.5 * torch.sin(6 * time))
    silent = (time < 0.13) | ((time > 1.2) & (time < 1.37)) | (time > 2.9)
    return torch.where(silent, 0.0, hertz)[None]


@pytest.mark.parametrize(("low", "high"), [(70.0, 120.0), (160.0, 290.0)])
def test_voiced_frames_begin_and_end_at_one_phase(low: float, high: float) -> None:
    curve, cycles = locked(contour(low, high))
    assert curve.shape == (1, 256) and cycles.shape == (1, 256 * ENTRY)
    voiced = curve.repeat_interleave(ENTRY, 1)[0] > 0
    borders = torch.arange(FRAME, cycles.shape[1] - 1, FRAME)
    inside = borders[voiced[borders - 1] & voiced[borders]]
    ends = cycles[0, inside - 1]
    assert len(inside) > 20 and torch.minimum(ends, 1 - ends).max() < 1e-3
    # the phase grows with F0, and jumps only in silence
    steps = cycles[0].diff().remainder(1.0) * SAMPLE_RATE
    within = voiced[1:] & voiced[:-1]
    wanted = curve.repeat_interleave(ENTRY, 1)[0, 1:]
    assert ((steps - wanted).abs()[within] < 0.25 * wanted[within]).all()


@pytest.mark.parametrize(("low", "high"), [(70.0, 120.0), (160.0, 290.0)])
def test_the_pitch_changes_by_little(low: float, high: float) -> None:
    before = contour(low, high)
    after, _ = locked(before)
    assert ((before == 0) == (after == 0)).all()
    # a frame has its own number of cycles or one that is less than STAYS off
    limit = STAYS * SAMPLE_RATE / FRAME
    assert (after - before).abs().max() < 2.5 * limit and (after - before).square().mean().sqrt() < limit


@pytest.mark.parametrize("factor", [0.85, 1.16])
def test_the_frames_of_a_sound_that_is_resampled_begin_at_one_phase(factor: float) -> None:
    """The source's sine, resampled as the teacher's sound is."""
    steps = tract.steps(factor)
    [curve], cycles = locked(contour(90.0, 190.0), steps)
    sound = tract.resampled(torch.sin(2 * torch.pi * cycles), [steps])[0]
    borders = torch.arange(FRAME, len(sound) - FRAME, FRAME)
    before = borders * steps // tract.WHOLE // ENTRY
    voiced = borders[(curve[before - 1] > 0) & (curve[before] > 0) & (curve[before + 1] > 0)]
    assert len(voiced) > 20 and sound[voiced].abs().max() < 0.06
    assert (sound[voiced + 12] > 0.2).all()


def test_without_a_lock_the_phase_is_that_of_the_curve() -> None:
    cycles = free(torch.full((1, 40), 101.0))
    assert torch.allclose(cycles[0, [0, 999]], torch.tensor([101 / SAMPLE_RATE, (101000 / SAMPLE_RATE) % 1]), atol=1e-5)


def test_the_sources_sines_are_harmonics_of_the_phase() -> None:
    kokoro._Lengths.cycles = torch.tensor([[0.0, 0.25, 0.5]])
    found = kokoro._sines(None, torch.zeros(1, 3, 2))
    assert torch.allclose(found[0], torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]), atol=1e-6)
