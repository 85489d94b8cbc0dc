"""TextEmbedder: token ids -> the text rows of the talker's input. KnownRows: a cache of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

BLOCK = 32


class TextEmbedder(nn.Module):
    """A table and a small MLP: out(silu(inner(table[id]))). A row depends on its id alone.

    The MLP is as wide inside as the table unless `inner` says otherwise.
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


class KnownRows:
    """A cache of text rows in one table on the device: most tokens of a text have occurred before.

    The embedder's weights must not change meanwhile.
    """

    def __init__(self, text: TextEmbedder, most: int = 8192) -> None:
        self._text, self._most = text, most
        self._places: dict[int, int] = {}  # of each id in the table
        self._table: Tensor | None = None  # [room, H], grows by doubling up to `most` rows

    def rows(self, ids: Sequence[int], place: Callable[[np.ndarray], Tensor]) -> Tensor:
        """[N] -> [N, H], a tensor of its own."""
        new = [index for index in dict.fromkeys(ids) if index not in self._places]
        if len(self._places) + len(new) > self._most:  # rare, so start over
            self._places.clear()
            new = list(dict.fromkeys(ids))
        if len(new) > self._most:
            return self._text.rows(place(np.array(ids, np.int64)))
        if new:
            self._learn(new, place)
        return self._table[place(np.array([self._places[index] for index in ids], np.int64))]

    @torch.inference_mode(False)  # a CPU's stream is in that mode, and tensors made there are read-only elsewhere
    @torch.no_grad()
    def _learn(self, new: list[int], place: Callable[[np.ndarray], Tensor]) -> None:
        rows, begin = self._text.rows(place(np.array(new, np.int64))), len(self._places)
        end = begin + len(new)
        if self._table is None or end > len(self._table):
            room = min(self._most, max(end, 2 * begin, 8 * BLOCK))
            table = rows.new_empty(room, rows.shape[1])
            if begin:
                table[:begin] = self._table[:begin]
            self._table = table
        self._table[begin:end] = rows
        self._places.update(zip(new, range(begin, end), strict=True))
