"""A resampled sound has higher formants, and its pitch and pace are higher by the same factor."""

import pytest
import torch

from omnitts_cli.training.tract import WHOLE, resampled, steps


def hum(hertz: float, samples: int) -> torch.Tensor:
    return torch.sin(2 * torch.pi * hertz * torch.arange(samples) / 24000)


@pytest.mark.parametrize("factor", [0.8125, 1.0, 1.1875])
def test_a_tone_is_higher_and_shorter(factor: float) -> None:
    sound = torch.stack([hum(300.0, 4800), hum(2000.0, 4800)])
    found = resampled(sound, [steps(factor)] * 2)
    length = int(4800 / factor)
    assert length <= found.shape[1] <= length + WHOLE
    for row, hertz in zip(found, (300.0, 2000.0), strict=True):
        assert torch.allclose(row[200 : length - 200], hum(hertz * factor, length)[200 : length - 200], atol=2e-3)


def test_each_row_has_its_own_factor() -> None:
    found = resampled(hum(500.0, 3200).repeat(3, 1), [24, 32, 40])
    assert found.shape == (3, 4267)
    assert torch.equal(found[1, :3200], hum(500.0, 3200)) and found[1, 3200:].abs().max() == 0
    assert torch.allclose(found[0, 100:4000], hum(375.0, 4000)[100:], atol=2e-3)
    assert torch.allclose(found[2, 100:2400], hum(625.0, 2400)[100:], atol=2e-3)


def test_what_would_be_too_high_is_gone() -> None:
    assert resampled(hum(11500.0, 4800)[None], [38])[0, 200:3800].abs().max() < 0.05
