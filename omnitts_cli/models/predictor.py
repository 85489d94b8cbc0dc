"""The predictor: fills groups 1..G-1 of one frame, as one function of fixed shapes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.cache import KVCache
from omnitts_cli.models.embed import FrameEmbedder
from omnitts_cli.models.layers import Stack, StackShape
from omnitts_cli.models.roles import Choose


@dataclass(frozen=True)
class PredictorShape:
    """`heard` is the talker's width; a projection is there exactly when it differs from the stack's own."""

    stack: StackShape
    heard: int
    groups: int  # G
    codes: int  # per group


class Predictor(nn.Module):
    """Hears the talker's hidden state, then the codes of this frame one group after another.

    The rows it hears are the frame embedder's; the module is given, not owned, because the talker
    hears the same tables.
    """

    def __init__(self, shape: PredictorShape, ops: Ops = plain.OPS) -> None:
        super().__init__()
        self.shape = shape
        self.stack = Stack(shape.stack, ops)
        self.heads = nn.Parameter(torch.empty(shape.groups - 1, shape.codes, shape.stack.hidden))
        nn.init.normal_(self.heads, std=0.02)
        self.project = nn.Linear(shape.heard, shape.stack.hidden) if shape.heard != shape.stack.hidden else None

    def narrow(self, rows: Tensor) -> Tensor:
        """Rows of the talker's width -> rows of this stack's width."""
        if self.project is None:
            return rows
        return self.stack.ops.linear(rows, self.project.weight, self.project.bias)

    def forward(self, hidden: Tensor, codes: Tensor, embedder: FrameEmbedder) -> Tensor:
        """Teacher-forced: hidden [N, H] and the true codes [N, G] -> logits [N, G-1, codes]."""
        heard = [hidden] + [embedder.group(g, codes[:, g]) for g in range(self.shape.groups - 1)]
        states = self.stack(self.narrow(torch.stack(heard, 1)))  # [N, G, P]
        return torch.einsum("ngp,gcp->ngc", states[:, 1:], self.heads)

    def frame(self, hidden: Tensor, first: Tensor, embedder: FrameEmbedder, choose: Choose) -> Tensor:
        """One frame: hidden [B, H] and group 0's codes [B] -> all codes [B, G].

        G-1 passes; the first hears two rows. The last code is never heard. Keys and values live for
        this frame only.
        """
        batch, groups, ops = hidden.shape[0], self.shape.groups, self.stack.ops
        stack = self.shape.stack
        cache = KVCache.empty(stack.layers, batch, groups, stack.kv_heads, stack.head_dim, hidden.device, hidden.dtype)
        slots = torch.arange(batch, device=hidden.device)
        codes = [first]
        rows = torch.stack([hidden, embedder.group(0, first)], 1)  # [B, 2, H]
        positions = torch.arange(2, device=hidden.device).expand(batch, 2)
        for group in range(1, groups):
            state = self.stack.cached(self.narrow(rows), positions, slots, cache, group + 1)[:, -1]
            codes.append(choose(group, ops.linear(state, self.heads[group - 1])))
            if group + 1 < groups:
                rows = embedder.group(group, codes[-1])[:, None]
                positions = positions[:, -1:] + 1
        return torch.stack(codes, 1)
