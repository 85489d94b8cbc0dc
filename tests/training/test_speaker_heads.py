"""A vector that holds the facts can be read; one that does not cannot."""

import torch

from omnitts_cli.training.speaker_heads import SpeakerHeads
from omnitts_cli.training.teacher import FACTS, STYLE, Facts


def test_facts_are_learned_from_the_vector() -> None:
    torch.manual_seed(0)
    known = [(1.0, 0.0, 240.0, 6.0), (0.0, 1.0, 90.0, 4.0), (1.0, 1.0, 170.0, 3.0)]
    made = torch.tensor([Facts(*four, (n - 1.0,) * STYLE).numbers() for n, four in enumerate(known)])
    vectors = torch.zeros(3, 32)
    vectors[:, :FACTS] = 3 * made
    heads = SpeakerHeads(32)
    optimiser = torch.optim.Adam(heads.parameters(), 0.05)
    losses = []
    for _ in range(150):
        loss = heads(vectors, made)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 < 0.5 < losses[0]
    assert heads(torch.zeros(3, 32), made) > 0.3


def test_losses_count_only_where_a_frame_follows_and_a_fact_is_known() -> None:
    torch.manual_seed(0)
    heads, made = SpeakerHeads(32), torch.randn(2, FACTS)
    hidden, followed = torch.randn(2, 5, 32), torch.tensor([[False, True, True, False, False]] * 2)
    wrong = heads.each_frame(hidden, followed, made)
    by_hand = (heads.along(hidden[:, 1:3]) - made[:, None]).square().mean()
    assert torch.allclose(wrong, by_hand)
    assert heads.each_frame(hidden, torch.zeros_like(followed), made) == 0
    torch.manual_seed(0)
    heads, vectors = SpeakerHeads(32), torch.randn(2, 32, requires_grad=True)
    made = torch.randn(2, FACTS)
    made[0, 1:] = float("nan")
    loss = heads(vectors, made)
    loss.backward()
    off = (heads.out(vectors) - made).square()
    assert torch.allclose(loss, (off[0, 0] + off[1].sum()) / (2 * FACTS)) and vectors.grad is not None
    assert vectors.grad.isfinite().all()
    followed = torch.ones(2, 4, dtype=torch.bool)
    assert heads.each_frame(torch.randn(2, 4, 32), followed, made).isfinite()


def test_the_mean_of_the_vectors_follows_the_last_batches() -> None:
    heads = SpeakerHeads(8)
    for n in range(10):
        heads.follow(torch.full((3, 8), float(n)))
    assert torch.allclose(heads.centre, torch.full((8,), 4.5))
    for _ in range(5000):
        heads.follow(torch.full((3, 8), 20.0))
    assert torch.allclose(heads.centre, torch.full((8,), 20.0), atol=0.5)
