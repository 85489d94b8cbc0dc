"""Learning books stay in use and become ordinary ones."""

import torch

from omnitts_cli.models.codec_layers import SplitQuantiser
from omnitts_cli.training.quantise import LEAST_SPREAD, LearningQuantiser


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
            _, _, loss, _ = quantiser(latent, into, out, 0.3, bypass=False)
            quantiser.renew()
    assert min(quantiser.leading.used() + quantiser.residual.used()) >= 12
    assert loss < 1.5  # both halves together; without books it would be 2


def test_a_settled_quantiser_is_the_learned_one() -> None:
    quantiser, into, out, latent = learned()
    quantiser.eval()
    with torch.no_grad():
        expected, _, _, _ = quantiser(latent, into, out, 0.0, bypass=False)
        quantiser.settle(into, out)
        assert torch.allclose(out.decode(into.encode(latent)), expected, atol=1e-4)


def test_learning_goes_on_from_settled_books() -> None:
    quantiser, into, out, latent = learned()
    with torch.no_grad():
        quantiser.settle(into, out)
        expected = out.decode(into.encode(latent))
        adopted = LearningQuantiser(3, 16, 6)
        adopted.adopt(latent, into)
        adopted.eval()
        found, _, _, _ = adopted(latent, into, out, 0.0, bypass=False)
        assert torch.allclose(found, expected, atol=1e-3)


def test_gradients_pass_through() -> None:
    quantiser, into, out, latent = learned()
    latent.requires_grad_()
    found, leading, loss, _ = quantiser(latent, into, out, 0.0, bypass=False)
    assert leading.shape == (*latent.shape[:2], into.leading.books.shape[-1])
    (found.square().mean() + loss).backward()
    assert latent.grad is not None and latent.grad.abs().sum() > 0
    assert into.leading.into.weight.grad is not None


def test_an_unused_entry_is_replaced_by_a_recent_latent() -> None:
    quantiser, into, out, latent = learned()
    book = quantiser.residual.books[0]
    book[3] = 1e4  # nearest to nothing
    quantiser.residual.counts[0, 3] = 0.0
    with torch.no_grad():
        quantiser(latent, into, out, 0.0, bypass=False)
        newcomer = quantiser.residual.newcomers[0, 3].clone()
        quantiser.renew()
    assert torch.allclose(book[3], newcomer, atol=1e-5) and book[3].abs().max() < 100


def test_dimensions_are_turned_and_resized_without_a_change_of_what_is_said() -> None:
    quantiser, into, out, latent = learned()
    into.residual.into.weight.data *= torch.tensor([4.0, 1.0, 1.0, 0.5, 0.1, 0.02])[:, None]
    quantiser.train()
    with torch.no_grad():
        for _ in range(600):
            quantiser(latent, into, out, 0.0, bypass=True)
        quantiser.eval()
        before, leading, _, _ = quantiser(latent, into, out, 0.0, bypass=True)
        quantiser.spread_out(latent, into, out)
        after, also_leading, _, _ = quantiser(latent, into, out, 0.0, bypass=True)
        assert torch.allclose(before, after, atol=1e-3) and torch.equal(leading, also_leading)
        quantiser.train()
        *_, alike = quantiser(latent, into, out, 0.0, bypass=True)
        projected = (latent @ into.residual.into.weight.T).flatten(0, 1)
    sizes = projected.std(0)
    assert sizes.max() / sizes.min() < 1.05 / LEAST_SPREAD  # 200 before
    assert torch.allclose(sizes, quantiser.spreads[1], rtol=0.05)
    assert float(alike) < 0.02 + _correlations(latent @ into.leading.into.weight.T)


def test_quiet_dimensions_get_their_share_of_the_books() -> None:
    """With one size for a whole latent its loudest dimension took nearly all books."""
    quantiser, into, out, latent = learned()
    into.residual.into.weight.data *= torch.tensor([8.0, 1.0, 1.0, 1.0, 1.0, 1.0])[:, None]
    quantiser.spreads[1] = torch.tensor([8.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    errors = []
    with torch.no_grad():
        for spread in (False, True):
            quantiser.train()
            for _ in range(600):
                quantiser(latent, into, out, 0.0, bypass=True)
            quantiser.spread_out(latent, into, out) if spread else quantiser.start(latent, into)
            quantiser.eval()
            projected = (latent @ into.residual.into.weight.T).flatten(0, 1)
            whole = (projected - quantiser.centres[1]) / quantiser.sizes[1]
            found, _ = quantiser.residual(whole, torch.ones(len(whole), 2))
            lost = (whole - found).square().mean(0) / whole.square().mean(0)
            errors.append(float(lost.sort().values[1:].mean()))  # of all dimensions but the best kept
    assert errors[1] < 0.8 * errors[0]


def test_dimensions_that_follow_each_other_cost() -> None:
    quantiser, into, out, latent = learned()
    *_, apart = quantiser(latent, into, out, 0.0, bypass=True)
    into.residual.into.weight.data[1:] = into.residual.into.weight.data[:1] + 0.1 * into.residual.into.weight.data[1:]
    *_, alike = quantiser(latent, into, out, 0.0, bypass=True)
    assert alike > apart + 0.5


def _correlations(projected: torch.Tensor) -> float:
    squares = torch.corrcoef(projected.flatten(0, 1).T).square()
    return float((squares.sum() - len(squares)) / (len(squares) * (len(squares) - 1)))


def test_a_trusted_measure_does_not_depend_on_the_batch() -> None:
    """Few speakers are in a batch: codes must not depend on who else is. Its gradients still hold it at one size."""
    torch.manual_seed(0)
    quantiser = LearningQuantiser(2, 8, 4)
    projected = (torch.randn(64, 4) * 3 + 5).requires_grad_()
    quantiser.centres[0], quantiser.sizes[0] = 4.0, 2.0
    known = (projected - 4.0) / 2.0
    doubted, own = quantiser._held(0, projected)
    assert torch.equal(doubted, own) and torch.allclose(own.mean(0), torch.zeros(4), atol=1e-5)
    assert torch.allclose(own.square().mean(0), torch.ones(4), atol=1e-4)
    quantiser.centres[0], quantiser.sizes[0] = 4.0, 2.0
    quantiser.trust.fill_(1.0)
    flat, own = quantiser._held(0, projected)
    assert torch.allclose(flat, known, atol=1e-5) and not torch.allclose(flat, own, atol=0.1)
    (flat * torch.randn(64, 4)).sum().backward()
    assert projected.grad is not None
    # no gradient moves all latents at once, or makes all of them larger
    assert projected.grad.sum(0).abs().max() < 1e-3 * projected.grad.abs().sum(0).max()
    assert (projected.grad * (projected - projected.mean(0))).sum(0).abs().max() < 1e-3 * projected.grad.abs().sum(
        0
    ).max()
    quantiser.eval()
    quantiser.centres[0], quantiser.sizes[0] = 4.0, 2.0
    assert torch.allclose(quantiser._held(0, projected)[0], known, atol=1e-5)


def test_kept_books_stay_and_follow_the_scale_of_the_latents() -> None:
    quantiser, into, out, latent = learned()
    quantiser.keep_books()
    quantiser.trust.fill_(1.0)
    books = quantiser.residual.books.clone()
    with torch.no_grad():
        _, before, first, _ = quantiser(latent, into, out, 0.0, bypass=False)
        for _ in range(400):
            _, after, last, _ = quantiser(40 * latent, into, out, 0.0, bypass=False)
            quantiser.renew()
    assert torch.equal(books, quantiser.residual.books)
    assert torch.allclose(before, after, atol=1e-2) and torch.allclose(first, last, rtol=1e-2)
