"""Auxiliary heads for training: they predict facts about the speaker from the speaker's vector and every frame."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omnitts_cli.models.speaker import SpeakerEncoder
from omnitts_cli.training.teacher import FACTS


@torch.no_grad()
def stretch(encoder: SpeakerEncoder, centre: Tensor, factor: float) -> None:
    """Changes the last layer so that every vector's distance from `centre`, the mean of all, is `factor` times as
    large."""
    encoder.out.weight.mul_(factor)
    assert encoder.out.bias is not None
    encoder.out.bias.sub_(centre).mul_(factor).add_(centre)


def wrong(guessed: Tensor, facts: Tensor) -> Tensor:
    """Squared errors of guesses [..., FACTS]; 0 where the facts are not known (NaN)."""
    return torch.where(facts.isnan(), 0.0, guessed.float() - facts.nan_to_num()).square()


class SpeakerHeads(nn.Module):
    """Predicts sex, accent, pitch, tempo, formants and the teacher's style vector."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.out = nn.Linear(hidden, FACTS)
        self.along = nn.Linear(hidden, FACTS)
        # running mean of the vectors; export stretches their distance from it
        self.centre: Tensor
        self.seen: Tensor  # batches
        self.register_buffer("centre", torch.zeros(hidden))
        self.register_buffer("seen", torch.zeros(()))

    @torch.no_grad()
    def follow(self, vectors: Tensor) -> None:
        """Update the running mean with vectors [n, H]: plain for a thousand batches, exponential after them."""
        self.seen += 1
        self.centre.lerp_(vectors.mean(0), (1 / self.seen).clamp(min=0.001))

    def forward(self, vectors: Tensor, facts: Tensor) -> Tensor:
        """vectors [n, H], facts [n, FACTS] -> mean squared error of the predictions, a scalar."""
        return wrong(self.out(vectors), facts).mean()

    def each_frame(self, hidden: Tensor, followed: Tensor, facts: Tensor) -> Tensor:
        """The same for hidden states [m, L, H], at positions that a frame follows [m, L]; facts [m, FACTS]."""
        off = wrong(self.along(hidden), facts[:, None]).mean(-1)
        return (off * followed).sum() / followed.sum().clamp(min=1)
