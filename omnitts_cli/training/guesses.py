"""Auxiliary heads for training: they predict facts about the speaker from the speaker's vector and every frame."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.training.teacher import FACTS


class Guesses(nn.Module):
    """Vector -> sex, accent, pitch, tempo and the numbers of the teacher's style."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.out = nn.Linear(hidden, FACTS)
        self.along = nn.Linear(hidden, FACTS)
        # the mean of all vectors, from which export stretches them
        self.centre: Tensor
        self.seen: Tensor  # batches
        self.register_buffer("centre", torch.zeros(hidden))
        self.register_buffer("seen", torch.zeros(()))

    @torch.no_grad()
    def follow(self, vectors: Tensor) -> None:
        """Vectors [n, H] enter the mean, in which the last thousand batches count."""
        self.seen += 1
        self.centre.lerp_(vectors.mean(0), (1 / self.seen).clamp(min=0.001))

    def forward(self, vectors: Tensor, facts: Tensor) -> Tensor:
        """vectors [n, H], facts [n, FACTS] -> how wrong the guesses are, a number."""
        return F.mse_loss(self.out(vectors).float(), facts)

    def each_frame(self, hidden: Tensor, followed: Tensor, facts: Tensor) -> Tensor:
        """The same for hidden states [m, L, H], where a frame follows [m, L]; facts [m, FACTS]."""
        wrong = (self.along(hidden).float() - facts[:, None]).square().mean(-1)
        return (wrong * followed).sum() / followed.sum().clamp(min=1)
