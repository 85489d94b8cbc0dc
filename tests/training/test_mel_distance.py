"""Distances tell sounds apart."""

import torch

from omnitts_cli.training.mel_distance import MelDistance


def test_mel_distance_grows_with_the_difference() -> None:
    torch.manual_seed(0)
    sound, noise = 0.1 * torch.randn(2, 5760), 0.1 * torch.randn(2, 5760)
    distance = MelDistance(24000)
    assert distance(sound, sound) == 0
    assert 0 < distance(sound + 0.01 * noise, sound) < distance(sound + noise, sound)
