"""Learning books stay in use and become ordinary ones."""

from __future__ import annotations

import torch

from omnitts_cli.models.codec_layers import SplitQuantiser
from omnitts_cli.training.quantise import LearningQuantiser


def learned() -> tuple[LearningQuantiser, SplitQuantiser, SplitQuantiser, torch.Tensor]:
    torch.manual_seed(0)
    into, out = SplitQuantiser(3, 16, 6, 12), SplitQuantiser(3, 16, 6, 10)
    quantiser = LearningQuantiser(3, 16, 6)
    latent = torch.randn(8, 20, 12) + 3.0  # far from zero: what once made the books collapse
    with torch.no_grad():
        for _ in range(400):  # running centre and size need time to arrive
            quantiser(latent, into, out, 0.0, bypass=True)
    quantiser.start(latent, into)
    return quantiser, into, out, latent


def test_books_start_used_and_stay_used() -> None:
    quantiser, into, out, latent = learned()
    with torch.no_grad():
        for _ in range(50):
            _, _, loss = quantiser(latent, into, out, 0.3, bypass=False)
            quantiser.renew()
    assert min(quantiser.leading.used() + quantiser.residual.used()) >= 12
    assert loss < 1.5  # both halves together; without books it would be 2


def test_a_settled_quantiser_is_the_learned_one() -> None:
    quantiser, into, out, latent = learned()
    quantiser.eval()
    with torch.no_grad():
        expected, _, _ = quantiser(latent, into, out, 0.0, bypass=False)
        quantiser.settle(into, out)
        assert torch.allclose(out.decode(into.encode(latent)), expected, atol=1e-4)


def test_learning_goes_on_from_settled_books() -> None:
    quantiser, into, out, latent = learned()
    with torch.no_grad():
        quantiser.settle(into, out)
        expected = out.decode(into.encode(latent))
        adopted = LearningQuantiser(3, 16, 6)
        adopted.adopt(latent, into, out)
        adopted.eval()
        found, _, _ = adopted(latent, into, out, 0.0, bypass=False)
        assert torch.allclose(found, expected, atol=1e-3)


def test_gradients_pass_through() -> None:
    quantiser, into, out, latent = learned()
    latent.requires_grad_()
    found, leading, loss = quantiser(latent, into, out, 0.0, bypass=False)
    assert leading.shape == (*latent.shape[:2], into.leading.books.shape[-1])
    (found.square().mean() + loss).backward()
    assert latent.grad is not None and latent.grad.abs().sum() > 0
    assert into.leading.into.weight.grad is not None


def test_an_entry_that_nobody_uses_becomes_a_newcomer() -> None:
    quantiser, into, out, latent = learned()
    book = quantiser.residual.books[0]
    book[3] = 1e4  # nearest to nothing
    quantiser.residual.counts[0, 3] = 0.0
    with torch.no_grad():
        quantiser(latent, into, out, 0.0, bypass=False)
        newcomer = quantiser.residual.newcomers[0, 3].clone()
        quantiser.renew()
    assert torch.allclose(book[3], newcomer, atol=1e-5) and book[3].abs().max() < 100
