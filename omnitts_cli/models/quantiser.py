"""The quantiser: latents <-> codes through one leading book and a run of residual books.

Everything here is float32 whatever the rest of the codec uses: a nearest neighbour that is decided by
rounding is another code, and the lookup is a thousandth of the work.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Books(nn.Module):
    """A run of books, each coding what the ones before it left over."""

    def __init__(self, books: int, codes: int, book_width: int, width: int) -> None:
        super().__init__()
        self.books = nn.Parameter(torch.randn(books, codes, book_width))
        self.into = nn.Linear(width, book_width, bias=False)
        self.out = nn.Linear(book_width, width, bias=False)

    def decode(self, codes: Tensor) -> Tensor:
        """codes [B, T, n] -> [B, T, width]."""
        count, size, book_width = self.books.shape
        # one gather from all books laid end to end, instead of one per book
        offsets = torch.arange(0, count * size, size, device=codes.device)
        entries = F.embedding(codes + offsets, self.books.view(count * size, book_width))  # [B, T, n, book width]
        return self.out(entries.sum(2))

    def encode(self, latent: Tensor) -> Tensor:
        """latent [B, T, width] -> codes [B, T, n], each the nearest by Euclidean distance."""
        rest = self.into(latent)
        codes = []
        for book in self.books:
            # one matrix per clip: the rounding of a clip's distances must not depend on its neighbours
            nearest = torch.cdist(rest, book.expand(rest.shape[0], -1, -1)).argmin(-1)  # [B, T]
            rest = rest - F.embedding(nearest, book)
            codes.append(nearest)
        return torch.stack(codes, -1)


class SplitQuantiser(nn.Module):
    """Group 0 has a book of its own; groups 1.. start again from the same latent, not from its remainder."""

    def __init__(self, groups: int, codes: int, book_width: int, width: int) -> None:
        super().__init__()
        self.leading = Books(1, codes, book_width, width)
        self.residual = Books(groups - 1, codes, book_width, width)

    def decode(self, codes: Tensor) -> Tensor:
        """codes [B, T, G] -> the quantised latent [B, T, width], float32."""
        return self.leading.decode(codes[..., :1]) + self.residual.decode(codes[..., 1:])

    def encode(self, latent: Tensor) -> Tensor:
        """latent [B, T, width] -> codes [B, T, G]."""
        latent = latent.float()
        return torch.cat([self.leading.encode(latent), self.residual.encode(latent)], -1)
