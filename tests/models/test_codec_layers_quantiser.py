"""Nearest book entries and their sums, against a slow plain statement of both."""

from __future__ import annotations

import torch

from omnitts_cli.models.codec_layers import Books, SplitQuantiser


def quantiser() -> SplitQuantiser:
    torch.manual_seed(0)
    return SplitQuantiser(groups=5, codes=11, book_width=6, width=8).requires_grad_(False)


def test_sum_of_entries() -> None:
    made = quantiser()
    codes = torch.randint(0, 11, (2, 3, 5))
    first, rest = made.leading, made.residual
    wanted = first.out(first.books[0][codes[..., 0]])
    wanted = wanted + rest.out(sum(rest.books[i][codes[..., i + 1]] for i in range(4)))
    torch.testing.assert_close(made.decode(codes), wanted)


def test_each_book_takes_the_nearest_of_what_is_left() -> None:
    made = quantiser()
    latent = torch.randn(2, 3, 8)
    codes = made.encode(latent)
    for part, columns in ((made.leading, codes[..., :1]), (made.residual, codes[..., 1:])):
        rest = part.into(latent)  # both halves start from the same latent
        for book, column in zip(part.books, columns.unbind(-1), strict=True):
            distances = (rest[:, :, None] - book).square().sum(-1)
            assert torch.equal(distances.argmin(-1), column)
            rest = rest - book[column]


def test_an_entry_finds_itself() -> None:
    books = Books(1, 7, 4, 4).requires_grad_(False)
    books.into.weight.copy_(torch.eye(4))
    assert books.encode(books.books)[0, :, 0].tolist() == list(range(7))


def test_neighbours_in_a_batch_change_no_code() -> None:
    made = quantiser()
    latents = torch.randn(4, 50, 8)
    together = made.encode(latents)
    assert all(torch.equal(made.encode(latents[i : i + 1])[0], together[i]) for i in range(4))


def test_low_precision_latents_are_compared_in_float32() -> None:
    made = quantiser()
    latent = torch.randn(1, 20, 8).bfloat16()
    assert torch.equal(made.encode(latent), made.encode(latent.float()))
    assert made.decode(made.encode(latent)).dtype == torch.float32


def test_books_learn_from_what_they_say() -> None:
    made = quantiser().requires_grad_(True)
    made.decode(torch.zeros(1, 2, 5, dtype=torch.int64)).sum().backward()
    assert made.residual.books.grad is not None
    assert made.residual.books.grad[:, 0].abs().sum() > 0 and made.residual.books.grad[:, 1:].abs().sum() == 0
