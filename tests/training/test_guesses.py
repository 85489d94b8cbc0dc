"""A vector that holds the facts can be read; one that does not cannot."""

from __future__ import annotations

import torch

from omnitts_cli.training.guesses import Guesses
from omnitts_cli.training.strangers import FACTS, facts
from omnitts_cli.training.teacher import TeacherVoice


def test_guesses_are_learned_from_what_the_vector_says() -> None:
    torch.manual_seed(0)
    voices = [TeacherVoice("rms", 0.9, 1.2), TeacherVoice("slt", 1.1), TeacherVoice("awb", 1.0, 0.8)]
    made = torch.tensor([facts(voice) for voice in voices])
    vectors = torch.zeros(3, 16)
    vectors[:, :FACTS] = 3 * made
    guesses = Guesses(16)
    optimiser = torch.optim.Adam(guesses.parameters(), 0.05)
    losses = []
    for _ in range(150):
        loss = guesses(vectors, made)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 < 1.0 < losses[0]
    assert guesses(torch.zeros(3, 16), made) > 0.5
