"""Guesses: a half that is thrown away later, and that makes the speaker's vector say who speaks."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.training.strangers import FACTS
from omnitts_cli.training.teacher import BASES


class Guesses(nn.Module):
    """Vector -> the stranger's base and numbers."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.out = nn.Linear(hidden, FACTS)

    def forward(self, vectors: Tensor, made: Tensor) -> Tensor:
        """vectors [n, H], made [n, FACTS] -> how wrong the guesses are, a number."""
        guessed, bases = self.out(vectors).float(), len(BASES)
        return F.cross_entropy(guessed[:, :bases], made[:, :bases]) + F.mse_loss(guessed[:, bases:], made[:, bases:])
