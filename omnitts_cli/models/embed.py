"""Input rows of the talker as modules: from codes (FrameEmbedder) and from text (TextEmbedder)."""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.kernels.ops import Ops, TextParts
from omnitts_cli.models.parameters import random
from omnitts_cli.models.prompts import BLOCK, Place


class FrameEmbedder(nn.Module):
    """The sum of one table per code group. Group 0's table also holds the control ids of prompts."""

    def __init__(self, vocabulary: int, groups: int, codes: int, hidden: int) -> None:
        super().__init__()
        self.first = random(vocabulary, hidden)
        self.rest = random(groups - 1, codes, hidden)

    def control(self, ids: Tensor) -> Tensor:
        """Rows of group 0's table: [...] -> [..., H]."""
        return F.embedding(ids, self.first)

    def group(self, group: int, codes: Tensor) -> Tensor:
        """Rows of one group's table: [...] -> [..., H]."""
        return F.embedding(codes, self.first if group == 0 else self.rest[group - 1])

    def frame(self, codes: Tensor) -> Tensor:
        """[..., G] -> [..., H]; all groups are added in one sum, so bfloat16 rounds once."""
        groups = torch.arange(self.rest.shape[0], device=codes.device) * self.rest.shape[1]
        rest = F.embedding(codes[..., 1:] + groups, self.rest.flatten(0, 1))
        return torch.cat([F.embedding(codes[..., :1], self.first), rest], -2).sum(-2)  # [..., G, H] -> [..., H]


BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32}


class TextEmbedder(nn.Module):
    """A table and a small MLP: out(silu(inner(table[id]))). A row depends on its id alone.

    The MLP is as wide inside as the table unless `inner` says otherwise. The table may have a type of its own, and an
    accelerator's stays in the memory of the host: the rows of a text are few, and known ones are kept by `KnownRows`.
    """

    def __init__(self, vocabulary: int, width: int, hidden: int, inner: int | None = None) -> None:
        super().__init__()
        self.inner = nn.Linear(width, inner or width)
        self.out = nn.Linear(inner or width, hidden)
        self.table = random(vocabulary, width)
        self.fused: Callable[[Tensor], Tensor] | None = None

    def prepare(self, ops: Ops, head: Tensor) -> None:
        """Make a loaded embedder ready for inference, beside a talker with this head."""
        if ops.fuse_text is not None:
            parts = TextParts(self.inner.weight, self.inner.bias, self.out.weight, self.out.bias)
            self.fused = ops.fuse_text(head, parts)
        self.to_host()

    def to_host(self) -> None:
        """Keep the table in the memory of the host."""
        if not self.table.is_meta:
            self.table.data = self.table.data.cpu()

    def forward(self, ids: Tensor) -> Tensor:
        """[...] -> [..., H]."""
        return self._made(self.table[ids])

    def _made(self, entries: Tensor) -> Tensor:
        """Entries of the table [..., W] -> [..., H]."""
        return self.out(F.silu(self.inner(entries.to(self.inner.weight.dtype))))

    def rows(self, ids: np.ndarray, place: Place) -> Tensor:
        """[N] -> [N, H], always computed in blocks of one size. The rounding of a product depends on its shape; with
        one shape, a token has the same row in every text and in text that arrives word by word.
        """
        if self.fused is not None:  # here a row does not depend on others
            return torch.as_tensor(self.fused(self.table[place(ids)]))
        count = ids.shape[0]
        whole = np.pad(ids, (0, -count % BLOCK))
        here = self.table.device == self.inner.weight.device
        entries = self.table[place(whole)] if here else sent(self.table, whole, place)
        return torch.cat([self._made(block) for block in entries.split(BLOCK)])[:count]


def sent(table: Tensor, ids: np.ndarray, place: Place) -> Tensor:
    """Entries of a table in the memory of the host, on the device; as bits, because NumPy has no bfloat16."""
    bits = table.detach().view(BITS[table.element_size()]).numpy()
    return place(bits[ids]).view(table.dtype)
