"""Talker: input rows -> a hidden state per frame and the logits of group 0. Predictor: groups 1..G-1 of one frame."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import FusedPredictor, FusedStep, Normed, Ops, PredictorParts
from omnitts_cli.models.embed import FrameEmbedder
from omnitts_cli.models.layers import KVCache, Stack
from omnitts_cli.models.parameters import random
from omnitts_cli.models.roles import Controls
from omnitts_cli.models.shapes import PredictorShape, TalkerShape

Choose = Callable[[int, Tensor, Normed | None], tuple[Tensor, Normed | None]]
"""(group, logits [B, V], table with rows [V, W]) -> codes [B] and their rows of the table [B, W], if there is one.

How the engine samples; models do not know sampling settings.
"""


class Talker(nn.Module):
    """`forward` for training, `prefill` for prompts, `step` for one frame; the cache is always the caller's."""

    def __init__(self, shape: TalkerShape, ops: Ops = plain.OPS) -> None:
        super().__init__()
        self.shape = shape
        self.stack = Stack(shape.stack, ops)
        self.head = random(shape.vocabulary, shape.stack.hidden)
        self.fused: FusedStep | None = None

    def prepare(self) -> None:
        """Make a loaded talker ready for inference; training does not call this."""
        self.stack.fuse()
        self.stack.to_input_major(self.head)
        at, fuse = self.shape.stack, self.stack.ops.fuse_step
        if fuse is not None and at.experts is None and self.head.device.type != "meta":
            self.fused = fuse(self.stack.blocks(), self.stack.norm.detach(), at.kv_heads, at.eps)
        if self.stack.ops.exact and self.fused is None and self.head.device.type != "meta":
            raise DeviceError("--exact is not possible with a mixture of experts", hint="leave out --exact")

    def cache(self, slots: int, capacity: int) -> KVCache:
        """Empty keys and values for `slots` requests of up to `capacity` positions."""
        return self.stack.cache(slots, capacity, self.head.device, self.stack.norm.dtype)

    def forward(self, rows: Tensor) -> Tensor:
        """Teacher-forced: rows [B, P, H] -> hidden states [B, P, H], causal."""
        return self.stack(rows)

    def prefill(self, rows: Tensor, start: Tensor, slots: Tensor, cache: KVCache, width: int) -> None:
        """Fills the cache with rows [B, P, H] at positions start [B] + 0..P-1 of `slots` [B].

        Rows may be padded on the right: what padding writes is overwritten before it is ever read.
        """
        positions = start[:, None] + torch.arange(rows.shape[1], device=rows.device)
        if self.fused is None or self.fused.prompts(rows, self.stack.attention(positions, slots, cache, width)) is None:
            self.stack.fill(rows, positions, slots, cache, width)

    def step(self, row: Tensor, positions: Tensor, slots: Tensor, cache: KVCache, width: int) -> Tensor:
        """One row each: row [B, H], positions [B], slots [B] -> hidden [B, H]."""
        if self.fused is not None and row.shape[0] <= self.fused.most_rows:
            return self.fused(row, positions, slots, cache.cos, cache.sin, cache.keys, cache.values)
        return self.stack.cached(row[:, None], positions[:, None], slots, cache, width)[:, 0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Group 0: [..., H] -> [..., V]."""
        return self.stack.ops.linear(hidden, self.head)


KEPT = 256
"""Batch size up to which `Places` are computed once. Larger batches compute them for every frame."""


@dataclass(frozen=True)
class Places:
    """Slots and positions of a frame's rows in the predictor's cache. They are constant, and computing them takes four
    kernels."""

    slots: Tensor  # [B]
    first: Tensor  # [B, 2]: positions of the first pass
    later: Tensor  # [G, B]: the position of each later pass

    @staticmethod
    def of(batch: int, groups: int, device: torch.device) -> "Places":
        """For a batch of frames."""
        steps = torch.arange(groups, device=device)
        slots = torch.arange(batch, device=device)
        return Places(slots, steps[:2].repeat(batch, 1), steps[:, None].repeat(1, batch))


class Predictor(nn.Module):
    """Reads the talker's hidden state, then the codes of this frame, group by group. Its input rows come from the frame
    embedder, which is an argument because the talker uses the same tables.
    """

    def __init__(self, shape: PredictorShape, ops: Ops = plain.OPS) -> None:
        super().__init__()
        self.shape = shape
        self.stack = Stack(shape.stack, ops)
        self.heads = random(shape.groups - 1, shape.codes, shape.stack.hidden)
        self.project = (
            nn.Linear(shape.talker_hidden, shape.stack.hidden) if shape.talker_hidden != shape.stack.hidden else None
        )
        self.narrowed: Tensor | None
        self.register_buffer("narrowed", None, persistent=False)
        self.turns: tuple[Tensor, Tensor] | None = None
        self.places: Places | None = None
        self.ready: list[Normed] | None = None  # `inputs` of a prepared predictor
        self.fused: FusedPredictor | None = None

    def prepare(self, embedder: FrameEmbedder) -> None:
        """Make a loaded predictor ready for inference: project the audio rows and compute the rotations once.

        Rows of floats are computed in float32 and rounded once. Training does not call this.
        """
        at = self.shape.stack
        self.places = Places.of(KEPT, self.shape.groups, self.heads.device)
        self.stack.fuse()
        self.turns = self.stack.turns(self.shape.groups, self.heads.device)
        self.stack.to_input_major(self.heads)
        if self.project is not None:
            self.stack.to_input_major(self.project.weight)
        if self.project is not None and self.narrowed is None:
            narrow = [self._narrow_table(table) for table in self.tables(embedder)]
            self.narrowed = torch.stack(narrow)  # [G-1, codes, P]
        self.ready = self.inputs(embedder)
        if self.stack.ops.fuse_predictor is not None and self.heads.device.type != "meta":
            cos, sin = self.turns
            later = embedder.rest.data[:-1] if self.narrowed is None else self.narrowed[1:]
            blocks, norm, heads = self.stack.blocks(), self.stack.norm.detach(), self.heads.detach()
            parts = PredictorParts(blocks, norm, at.eps, at.kv_heads, cos, sin, heads, later)
            self.fused = self.stack.ops.fuse_predictor(parts)

    def tables(self, embedder: FrameEmbedder) -> list[Tensor]:
        """Input rows of this stack after codes of groups 0..G-2: [codes, P] each, [codes, H] before `prepare`.

        Group 0's has no row for the end code, after which nothing is read.
        """
        if self.narrowed is not None:
            return list(self.narrowed)
        return [embedder.first.data[: self.shape.codes], *embedder.rest.data[:-1]]

    def narrow(self, rows: Tensor) -> Tensor:
        """Rows of the talker's width -> rows of this stack's width."""
        if self.project is None:
            return rows
        return self.stack.ops.linear(rows, self.project.weight, self.project.bias)

    def _narrow_table(self, table: Tensor) -> Tensor:
        """`narrow`, in float32 whatever the precision. With a matrix in 8 bits, rows are rounded like all others."""
        weight, bias = self.project.weight.data, self.project.bias
        if weight.is_floating_point():
            return torch.addmm(bias.float(), table.float(), weight.float().T).to(table.dtype)
        return self.narrow(table.float()).to(table.dtype)

    def inputs(self, embedder: FrameEmbedder) -> list[Normed]:
        """`tables`, with the norm of the first layer."""
        if self.ready is not None:
            return self.ready
        return [self.stack.first_norm(table) for table in self.tables(embedder)]

    def _input(self, row: Normed) -> Normed:
        """A row of `inputs` in this stack's width."""
        if self.narrowed is not None or self.project is None:
            return row
        return self.stack.first_norm(self.narrow(row.rows))

    def forward(self, hidden: Tensor, codes: Tensor, embedder: FrameEmbedder) -> Tensor:
        """Teacher-forced: hidden [N, H] and the true codes [N, G] -> logits [N, G-1, codes]."""
        rows = [hidden] + [embedder.group(g, codes[:, g]) for g in range(self.shape.groups - 1)]
        states = self.stack(self.narrow(torch.stack(rows, 1)))  # [N, G, P]
        return torch.einsum("ngp,gcp->ngc", states[:, 1:], self.heads)

    def fused_frame(self, hidden: Tensor, first: Tensor, row: Normed, frames: Tensor, controls: Controls) -> Tensor:
        """`frame` as one operation, with the draws of group 1 and later inside: -> all codes [B, G]."""
        settings = controls.predictor_temperature, controls.predictor_top_k, controls.predictor_top_p
        return self.fused(self.narrow(hidden), self._input(row).rows, first, controls.seed, frames, *settings)

    def frame(self, hidden: Tensor, first: Tensor, row: Normed, embedder: FrameEmbedder, choose: Choose) -> Tensor:
        """One frame: hidden [B, H], group 0's codes [B] and their rows of `inputs` -> all codes [B, G].

        G-1 passes; the first reads two rows. The last code is never read. Keys and values live for
        this frame only.
        """
        batch, groups, ops = hidden.shape[0], self.shape.groups, self.stack.ops
        # not cleared, as passes read only positions that this frame has written
        cache = self.stack.cache(batch, groups, hidden.device, hidden.dtype, self.turns, cleared=False)
        kept = self.places if self.places is not None and batch <= KEPT else Places.of(batch, groups, hidden.device)
        slots, positions = kept.slots[:batch], kept.first[:batch]
        codes, tables = [first], self.inputs(embedder)
        rows = self.stack.first_norm(torch.stack([self.narrow(hidden), self._input(row).rows], 1))  # [B, 2, P]
        for group in range(1, groups):
            state = self.stack.unnormed(rows, positions, slots, cache, group + 1)
            scores = ops.norm_linear(state.last(), self.heads[group - 1])
            if group + 1 == groups:
                codes.append(choose(group, scores, None)[0])
                break
            code, row = choose(group, scores, tables[group])
            codes.append(code)
            rows, positions = self._input(row).in_slots(), kept.later[group + 1, :batch, None]
        return torch.stack(codes, 1)
