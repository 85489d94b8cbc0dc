"""Guesses: a half that is thrown away later, and that makes the speaker's vector say who speaks."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.training.teacher import FACTS


class Guesses(nn.Module):
    """Vector -> sex, accent, pitch, tempo and the numbers of the teacher's style."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.out = nn.Linear(hidden, FACTS)

    def forward(self, vectors: Tensor, facts: Tensor) -> Tensor:
        """vectors [n, H], facts [n, FACTS] -> how wrong the guesses are, a number."""
        return F.mse_loss(self.out(vectors).float(), facts)
