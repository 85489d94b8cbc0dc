"""Experts: the MLP of a layer that has many small ones, of which every row hears a few, and one that all hear.

Routing is float32 whatever the activations are: with bfloat16 scores, ties decide who is heard. Two forms
compute the same. For few rows the chosen experts' weights are gathered; for many, rows are sorted by expert
and multiplied in groups. Which one is used depends on the number of rows alone, group sizes never leave
the device, and all shapes are fixed, so both can be captured.

Letters: N rows, E experts, K experts that a row hears, I width inside one, H hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops

FEW = 4
"""Rows up to which weights are gathered. It copies them: from here on, reading every expert once costs less."""


@dataclass(frozen=True)
class ExpertShape:
    """Sizes of one block of experts."""

    count: int  # E
    chosen: int  # K
    inner: int  # I
    shared: int  # width inside the expert that every row hears; 0: there is none
    renormalised: bool = True  # the chosen ones' weights add up to one


class Experts(nn.Module):
    """[..., H] -> [..., H]; the norm before and the sum after are the layer's.

    The experts' matrices lie one below the other, as they come from a file.
    """

    def __init__(self, hidden: int, shape: ExpertShape) -> None:
        super().__init__()
        self.shape = shape
        self.router = nn.Parameter(torch.empty(shape.count, hidden))
        self.gate_up = nn.Parameter(torch.empty(shape.count * 2 * shape.inner, hidden))
        self.down = nn.Parameter(torch.empty(shape.count * hidden, shape.inner))
        weights = [self.router, self.gate_up, self.down]
        if shape.shared:
            self.shared_gate = nn.Parameter(torch.empty(1, hidden))
            self.shared_gate_up = nn.Parameter(torch.empty(2 * shape.shared, hidden))
            self.shared_down = nn.Parameter(torch.empty(hidden, shape.shared))
            weights += [self.shared_gate, self.shared_gate_up, self.shared_down]
        for weight in weights:
            nn.init.normal_(weight, std=0.02)
        for weight in weights:
            nn.init.normal_(weight, std=0.02)

    def prepare(self) -> None:
        """Keep the loaded router in float32, so that no step has to widen it."""
        self.router.data = self.router.data.float()

    def forward(self, x: Tensor, ops: Ops = plain.OPS) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])  # [N, H]
        weights, chosen = self.route(rows)
        form = gathered if len(rows) <= FEW else grouped
        made = form(rows, weights.to(x.dtype), chosen, *self.matrices())
        if self.shape.shared:
            share = ops.linear(rows, self.shared_gate).sigmoid()  # [N, 1]
            made = made + share * ops.linear(swiglu(ops.linear(rows, self.shared_gate_up)), self.shared_down)
        return made.view_as(x)

    def matrices(self) -> tuple[Tensor, Tensor]:
        """[E, 2 I, H], gate over up, and [E, H, I]; views."""
        return self.gate_up.unflatten(0, (self.shape.count, -1)), self.down.unflatten(0, (self.shape.count, -1))

    def route(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Whom each row hears, and how loud: [N, K] float32 and [N, K] int64, loudest first."""
        chance = F.linear(rows.float(), self.router.float()).softmax(-1)
        weights, chosen = chance.topk(self.shape.chosen, -1)
        if self.shape.renormalised:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights, chosen


def swiglu(x: Tensor) -> Tensor:
    """[..., 2 I] -> [..., I], gate first."""
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def gathered(rows: Tensor, weights: Tensor, chosen: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """[N, H] -> [N, H] through a copy of the N * K chosen experts."""
    flat = chosen.flatten()  # [N K]
    heard = rows.repeat_interleave(chosen.shape[1], 0)[..., None]  # [N K, H, 1]
    thought = swiglu(torch.bmm(gate_up.index_select(0, flat), heard)[..., 0])
    made = torch.bmm(down.index_select(0, flat), thought[..., None])  # [N K, H, 1]
    return (made.view(*chosen.shape, -1) * weights[..., None]).sum(1)


def grouped(rows: Tensor, weights: Tensor, chosen: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """[N, H] -> [N, H] by one product per matrix, whose groups are the rows that hear the same expert."""
    if rows.dtype != torch.bfloat16:
        return everyone(rows, weights, chosen, gate_up, down)
    flat = chosen.flatten()  # [N K]
    order = flat.argsort(stable=True)
    experts = torch.arange(gate_up.shape[0], device=rows.device)
    ends = (flat[:, None] == experts).sum(0).cumsum(0).int()  # [E]: behind each expert's last row
    heard = rows.index_select(0, order // chosen.shape[1])
    thought = swiglu(F.grouped_mm(heard, gate_up.transpose(1, 2), offs=ends))
    made = F.grouped_mm(thought, down.transpose(1, 2), offs=ends)
    made = made.index_select(0, order.argsort()).view(*chosen.shape, -1)  # [N, K, H]
    return (made * weights[..., None]).sum(1)


def everyone(rows: Tensor, weights: Tensor, chosen: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """The same with every expert heard and all but the chosen ones forgotten: E / K times the work.

    For formats in which a product in groups would ask the host for the sizes of its groups.
    """
    thought = swiglu(torch.matmul(rows, gate_up.transpose(1, 2)))  # [E, N, I]
    made = torch.matmul(thought, down.transpose(1, 2)).transpose(0, 1)  # [N, E, H]
    made = made.gather(1, chosen[..., None].expand(-1, -1, rows.shape[1]))
    return (made * weights[..., None]).sum(1)
