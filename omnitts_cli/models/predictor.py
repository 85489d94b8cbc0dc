"""The predictor: fills groups 1..G-1 of one frame, as one function of fixed shapes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.cache import angles
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
        self.narrowed: Tensor | None
        self.register_buffer("narrowed", None, persistent=False)
        self.turns: tuple[Tensor, Tensor] | None = None

    def prepare(self, embedder: FrameEmbedder) -> None:
        """Project the embedder's audio rows once, for speaking: a frame then looks its rows up. Rotations likewise.

        Computed in float32 and rounded once. Training does without.
        """
        at = self.shape.stack
        self.turns = angles(torch.arange(self.shape.groups, device=self.heads.device), at.head_dim, at.rope_theta)
        self.stack.fuse()
        self.stack.to_input_major(self.heads)
        if self.project is None:
            return
        self.stack.to_input_major(self.project.weight)
        weight, bias = self.project.weight.float(), self.project.bias.float()
        narrow = [torch.addmm(bias, table.float(), weight.T).to(self.heads.dtype) for table in self.tables(embedder)]
        self.narrowed = torch.stack(narrow)  # [G-1, codes, P]

    def tables(self, embedder: FrameEmbedder) -> list[Tensor]:
        """Input rows of this stack after codes of groups 0..G-2: [codes, P] each, projected if `prepare` did that."""
        if self.narrowed is not None:
            return list(self.narrowed)
        return [embedder.first.data[: self.shape.codes], *embedder.rest.data[:-1]]

    def narrow(self, rows: Tensor) -> Tensor:
        """Rows of the talker's width -> rows of this stack's width."""
        if self.project is None:
            return rows
        return self.stack.ops.linear(rows, self.project.weight, self.project.bias)

    def heard(self, embedder: FrameEmbedder, group: int, codes: Tensor) -> Tensor:
        """What this stack hears after a code of `group`: [B] -> [B, P]."""
        if self.narrowed is None:
            return self.narrow(embedder.group(group, codes))
        # the end code has no row here; what follows it is never used
        return F.embedding(codes.clamp(max=self.shape.codes - 1) if group == 0 else codes, self.narrowed[group])

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
        cache = self.stack.cache(batch, groups, hidden.device, hidden.dtype, self.turns)
        slots = torch.arange(batch, device=hidden.device)
        steps = torch.arange(groups, device=hidden.device)[:, None].expand(groups, batch).contiguous()
        codes = [first]
        rows = torch.stack([self.narrow(hidden), self.heard(embedder, 0, first)], 1)  # [B, 2, P]
        positions = steps[:2].T.contiguous()
        for group in range(1, groups):
            state = self.stack.cached(rows, positions, slots, cache, group + 1)[:, -1]
            codes.append(choose(group, ops.linear(state, self.heads[group - 1])))
            if group + 1 < groups:
                rows = self.heard(embedder, group, codes[-1])[:, None]
                positions = steps[group + 1, :, None]
        return torch.stack(codes, 1)
