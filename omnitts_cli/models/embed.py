"""FrameEmbedder: the codes of a frame -> the one row that the talker hears next."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FrameEmbedder(nn.Module):
    """One table per code group, summed. Group 0's table also holds the control ids of prompts."""

    def __init__(self, vocabulary: int, groups: int, codes: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(vocabulary, hidden))
        self.rest = nn.Parameter(torch.empty(groups - 1, codes, hidden))
        for table in (self.first, self.rest):
            nn.init.normal_(table, std=0.02)

    def control(self, ids: Tensor) -> Tensor:
        """Rows of group 0's table: [...] -> [..., H]."""
        return self.first[ids]

    def group(self, group: int, codes: Tensor) -> Tensor:
        """Rows of one group's table: [...] -> [..., H]."""
        return self.first[codes] if group == 0 else self.rest[group - 1][codes]

    def frame(self, codes: Tensor) -> Tensor:
        """[..., G] -> [..., H]; the groups are added in one sum, which rounds once in bfloat16."""
        groups = torch.arange(self.rest.shape[0], device=codes.device)
        rows = torch.cat([self.first[codes[..., :1]], self.rest[groups, codes[..., 1:]]], -2)  # [..., G, H]
        return rows.sum(-2)
