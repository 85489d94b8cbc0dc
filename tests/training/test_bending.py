"""Random delays of frames, and sound that is bent through them."""

import pytest
import torch

from omnitts_cli.training.bending import FURTHEST, bent, curve, half_periods, mean_pitch, walk
from omnitts_cli.training.pool import FRAME
from omnitts_cli.training.teacher import SAMPLE_RATE


def test_no_delay_is_further_than_half_a_period_from_the_one_before() -> None:
    torch.manual_seed(0)
    reach = half_periods(torch.tensor([[60.0], [100.0], [200.0], [400.0]])).expand(4, 500)
    assert reach[:, 0].tolist() == [FURTHEST, FURTHEST, 60.0, 30.0]
    delays = walk(reach)
    assert torch.equal(delays, delays.round()) and delays.abs().max() <= FURTHEST
    steps = delays.diff(dim=1)
    assert (steps.abs() <= reach[:, 1:] + 1).all()
    # steps fill the whole way: a uniform one has a standard deviation of reach / sqrt(3)
    assert torch.allclose(steps.std(1), reach[:, 0] / 3**0.5, rtol=0.1)


def test_the_pitch_of_a_frame_is_that_of_its_voiced_parts() -> None:
    octaves = torch.tensor([[1.0, 3.0, 9.0, 9.0, 2.0, 2.0]])
    voiced = torch.tensor([[True, True, False, False, False, False]])
    found = mean_pitch(octaves, voiced, torch.tensor([[150.0, 160.0]]), 4)  # the last two could not be measured
    assert found.tolist() == [[256.0, 160.0]]


def test_every_frame_glides_to_its_own_delay() -> None:
    delays = torch.tensor([[10.0, -20.0, 40.0]])
    found = curve(delays)[0]
    assert len(found) == 3 * FRAME and (found[:FRAME] == 10).all()
    assert found[FRAME] == 10 and found[2 * FRAME] == -20 and found[-1].item() == pytest.approx(40, abs=0.01)
    assert found[FRAME + FRAME // 2].item() == pytest.approx(-5)
    assert found.diff().abs().max() <= 1.5 * 60 / FRAME + 1e-4  # a slight change of pitch, nowhere a jump


def test_bent_sound_is_the_sound_at_the_delayed_times() -> None:
    time = torch.arange(4 * FRAME)

    def wave(at: torch.Tensor) -> torch.Tensor:
        seconds = at / SAMPLE_RATE
        return 0.5 * torch.sin(2 * torch.pi * 440 * seconds) + 0.1 * torch.sin(2 * torch.pi * 7000 * seconds)

    sound = (wave(time.double()) * 32768).round().to(torch.int16)
    first, delay = torch.tensor([FRAME]), curve(torch.tensor([[0.0, 77.0]]))
    wanted = wave(FRAME + torch.arange(2 * FRAME).double() - delay[0].double())
    assert torch.allclose(bent(sound, first, delay)[0].double(), wanted, atol=2e-3)
    still = bent(sound, first, torch.zeros(1, 2 * FRAME))
    assert torch.allclose(still[0], sound[FRAME : 3 * FRAME].float() / 32768, atol=1e-6)
