"""FrameEmbedder: the codes of a frame -> the next input row of the talker."""

from __future__ import annotations

import torch
import torch.nn.functional as F
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
        return F.embedding(ids, self.first)

    def group(self, group: int, codes: Tensor) -> Tensor:
        """Rows of one group's table: [...] -> [..., H]."""
        return F.embedding(codes, self.first if group == 0 else self.rest[group - 1])

    def frame(self, codes: Tensor) -> Tensor:
        """[..., G] -> [..., H]; the groups are added in one sum, which rounds once in bfloat16."""
        groups = torch.arange(self.rest.shape[0], device=codes.device) * self.rest.shape[1]
        rest = F.embedding(codes[..., 1:] + groups, self.rest.flatten(0, 1))
        return torch.cat([F.embedding(codes[..., :1], self.first), rest], -2).sum(-2)  # [..., G, H] -> [..., H]
