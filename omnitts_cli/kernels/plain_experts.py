"""Plain PyTorch version of a block of experts: the reference that faster versions are compared with.

Routing is float32 whatever the activations are: with bfloat16 scores, ties decide which expert is chosen. Two forms
compute the same. For few rows the chosen experts' weights are gathered; for many, rows are sorted by expert
and multiplied in groups. Which one is used depends on the number of rows alone, group sizes never leave
the device, and all shapes are fixed, so both can be captured.

Letters: N rows, E experts to choose from, K chosen by a row, S shared by all rows, I width inside one, H hidden.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels.ops import ExpertBlock

FEW = 4
"""Rows up to which weights are gathered. It copies them: from here on, reading every expert once costs less."""


def mixture(x: Tensor, block: ExpertBlock) -> Tensor:
    """[..., H] -> [..., H]: the outputs of the chosen experts, times their gates, and of the shared ones."""
    rows = x.reshape(-1, x.shape[-1])  # [N, H]
    weights, chosen = route(rows, block)
    form = gathered if len(rows) <= FEW else grouped
    made = form(rows, weights.to(x.dtype), chosen, block.gate_up[: block.count], block.down[: block.count])
    share = F.linear(rows, block.router[block.count :]).sigmoid()  # [N, 1]
    for gate_up, down in zip(block.gate_up[block.count :], block.down[block.count :], strict=True):
        made = made + share * F.linear(swiglu(F.linear(rows, gate_up)), down)
    return made.view_as(x)


def route(rows: Tensor, block: ExpertBlock) -> tuple[Tensor, Tensor]:
    """The gates and numbers of the experts that each row chooses, [N, K] float32 and int64, largest gate first."""
    chance = F.linear(rows.float(), block.router[: block.count].float()).softmax(-1)
    weights, chosen = chance.topk(block.chosen, -1)
    if block.renormalised:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights, chosen


def swiglu(x: Tensor) -> Tensor:
    """[..., 2 I] -> [..., I], gate first."""
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def gathered(rows: Tensor, weights: Tensor, chosen: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """[N, H] -> [N, H] through a copy of the N * K chosen experts."""
    flat = chosen.flatten()  # [N K]
    inputs = rows.repeat_interleave(chosen.shape[1], 0)[..., None]  # [N K, H, 1]
    thought = swiglu(torch.bmm(gate_up.index_select(0, flat), inputs)[..., 0])
    made = torch.bmm(down.index_select(0, flat), thought[..., None])  # [N K, H, 1]
    return (made.view(*chosen.shape, -1) * weights[..., None]).sum(1)


def grouped(rows: Tensor, weights: Tensor, chosen: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """[N, H] -> [N, H] by one product per matrix, whose groups are the rows that chose the same expert."""
    # rows of a grouped product must be multiples of 16 bytes
    if rows.dtype != torch.bfloat16 or down.shape[1] % 8 or down.shape[2] % 8:
        return everyone(rows, weights, chosen, gate_up, down)
    flat = chosen.flatten()  # [N K]
    order = flat.argsort(stable=True)
    experts = torch.arange(gate_up.shape[0], device=rows.device)
    ends = (flat[:, None] == experts).sum(0).cumsum(0).int()  # [E]: the end of each expert's rows
    inputs = rows.index_select(0, order // chosen.shape[1])
    thought = swiglu(F.grouped_mm(inputs, gate_up.transpose(1, 2), offs=ends))
    made = F.grouped_mm(thought, down.transpose(1, 2), offs=ends)
    made = made.index_select(0, order.argsort()).view(*chosen.shape, -1)  # [N, K, H]
    return (made * weights[..., None]).sum(1)


def everyone(rows: Tensor, weights: Tensor, chosen: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """The same with every expert computed and all but the chosen ones dropped: E / K times the work.

    For formats in which a product in groups would ask the host for the sizes of its groups.
    """
    thought = swiglu(torch.matmul(rows, gate_up.transpose(1, 2)))  # [E, N, I]
    made = torch.matmul(thought, down.transpose(1, 2)).transpose(0, 1)  # [N, E, H]
    made = made.gather(1, chosen[..., None].expand(-1, -1, rows.shape[1]))
    return (made * weights[..., None]).sum(1)
