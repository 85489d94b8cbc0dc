"""A norm over valid frames alone is the norm of the text alone; weights come back from integers."""

import torch
from torch import nn

from omnitts_cli.training import kokoro


def test_padding_changes_nothing_that_is_valid() -> None:
    torch.manual_seed(0)
    x, scale, alpha = torch.randn(2, 3, 10), torch.randn(2, 6), torch.rand(1, 3, 1) + 0.5
    x[1, :, 6:] = 100.0
    made = kokoro._norm_snake(x, scale, torch.tensor([10, 6]), alpha, 1e-5)
    for row, length in ((0, 10), (1, 6)):
        gamma, beta = scale[row, :, None].chunk(2)
        alone = (1 + gamma) * nn.functional.instance_norm(x[row : row + 1, :, :length])[0] + beta
        alone = alone + torch.sin(alpha[0] * alone).square() / alpha[0]
        assert torch.allclose(made[row, :, :length], alone, atol=1e-5)
    assert made[1, :, 6:].abs().max() == 0


def test_integers_become_floats_again() -> None:
    stored = {
        "a": torch.tensor([[1, 3]], dtype=torch.uint8),
        "a|zero": torch.tensor(1.0),
        "a|scale": torch.tensor(0.5),
        "b": torch.ones(2),
    }
    floats = kokoro._floats(stored)
    assert floats["a"].tolist() == [[0.0, 1.0]] and floats["b"].tolist() == [1.0, 1.0] and set(floats) == {"a", "b"}
