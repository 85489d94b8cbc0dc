"""The talker: input rows -> a hidden state per frame and the logits of group 0."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.cache import KVCache
from omnitts_cli.models.layers import Stack, StackShape


@dataclass(frozen=True)
class TalkerShape:
    """`vocabulary` counts audio codes and control ids together."""

    stack: StackShape
    vocabulary: int


class Talker(nn.Module):
    """`forward` for training, `prefill` for prompts, `step` for one frame; the cache is always the caller's."""

    def __init__(self, shape: TalkerShape, ops: Ops = plain.OPS) -> None:
        super().__init__()
        self.shape = shape
        self.stack = Stack(shape.stack, ops)
        self.head = nn.Parameter(torch.empty(shape.vocabulary, shape.stack.hidden))
        nn.init.normal_(self.head, std=0.02)

    def prepare(self) -> None:
        """Make a loaded talker ready for inference; training does not call this."""
        self.stack.fuse()
        self.stack.to_input_major(self.head)

    def cache(self, slots: int, capacity: int) -> KVCache:
        """Empty keys and values for `slots` requests of up to `capacity` positions."""
        return self.stack.cache(slots, capacity, self.head.device, self.head.dtype)

    def forward(self, rows: Tensor) -> Tensor:
        """Teacher-forced: rows [B, P, H] -> hidden states [B, P, H], causal."""
        return self.stack(rows)

    def prefill(self, rows: Tensor, start: Tensor, slots: Tensor, cache: KVCache, width: int) -> Tensor:
        """Rows [B, P, H] at positions start [B] + 0..P-1 of `slots` [B]: fills the cache.

        Rows may be padded on the right: what padding writes is overwritten before it is ever read.
        """
        positions = start[:, None] + torch.arange(rows.shape[1], device=rows.device)
        return self.stack.cached(rows, positions, slots, cache, width)

    def step(self, row: Tensor, positions: Tensor, slots: Tensor, cache: KVCache, width: int) -> Tensor:
        """One row each: row [B, H], positions [B], slots [B] -> hidden [B, H]."""
        return self.stack.cached(row[:, None], positions[:, None], slots, cache, width)[:, 0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Group 0: [..., H] -> [..., V]."""
        return self.stack.ops.linear(hidden, self.head)
