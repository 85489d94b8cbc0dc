"""TextEmbedder: token ids -> the rows that the talker hears as text."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BLOCK = 32


class TextEmbedder(nn.Module):
    """A table and a small MLP: out(silu(inner(table[id]))). A row depends on its id alone.

    The MLP is as wide inside as the table, unless told otherwise.
    """

    def __init__(self, vocabulary: int, width: int, hidden: int, inner: int | None = None) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(vocabulary, width))
        self.inner = nn.Linear(width, inner or width)
        self.out = nn.Linear(inner or width, hidden)
        nn.init.normal_(self.table, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """[...] -> [..., H]."""
        return self.out(F.silu(self.inner(self.table[ids])))

    def rows(self, ids: Tensor) -> Tensor:
        """[N] -> [N, H], always computed in blocks of one size.

        A product's rounding depends on its shape; with one shape a token has the same row alone, in a
        long text, and in text that arrives word by word.
        """
        count = ids.shape[0]
        blocks = F.pad(ids, (0, -count % BLOCK)).split(BLOCK)
        return torch.cat([self(block) for block in blocks])[:count]
