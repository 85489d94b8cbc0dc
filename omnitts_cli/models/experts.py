"""Experts: a mixture-of-experts MLP. Each row is routed to a few experts; a shared expert processes every row.

For inference the shared expert is cut into pieces as wide as the others and appended to them, so that a block is a list
of equal experts, some routed and some always used.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import ExpertBlock, Ops
from omnitts_cli.models.parameters import random
from omnitts_cli.models.shapes import ExpertShape


class Experts(nn.Module):
    """[..., H] -> [..., H], with the norm before and the residual sum after. The experts' matrices are concatenated."""

    def __init__(self, hidden: int, shape: ExpertShape) -> None:
        super().__init__()
        self.shape = shape
        self.router = random(shape.count, hidden)
        self.gate_up = random(shape.count * 2 * shape.inner, hidden)
        self.down = random(shape.count * hidden, shape.inner)
        self.shared_gate: nn.Parameter | None = None
        if shape.shared:
            self.shared_gate = random(1, hidden)
            self.shared_gate_up = random(2 * shape.shared, hidden)
            self.shared_down = random(hidden, shape.shared)

    def forward(self, x: Tensor, norm: Tensor, eps: float, ops: Ops = plain.OPS) -> Tensor:
        """x + experts(rms_norm(x))."""
        return ops.experts(x, norm, eps, self.block())

    @torch.no_grad()
    def merge_shared(self) -> None:
        """Append the shared expert to the others once, so that no step has to; the last change before use."""
        self.router.data, self.gate_up.data, self.down.data = self._joined()
        self.shared_gate = self.shared_gate_up = self.shared_down = None

    def block(self) -> ExpertBlock:
        """The weights as an operation takes them."""
        at = self.shape
        router, gate_up, down = self._joined()
        gate_up, down = gate_up.unflatten(0, (-1, 2 * at.inner)), down.unflatten(0, (-1, router.shape[1]))
        return ExpertBlock(router, gate_up, down, at.count, at.chosen, at.renormalised)

    def _joined(self) -> tuple[Tensor, Tensor, Tensor]:
        """Router, gate_up and down followed by the shared expert's pieces; zeros pad the last piece."""
        if self.shared_gate is None:  # there is none, or it is merged already
            return self.router, self.gate_up, self.down
        (hidden, width), inner = self.shared_down.shape, self.shape.inner
        lacking = -width % inner
        halves = [F.pad(half, (0, 0, 0, lacking)).view(-1, inner, hidden) for half in self.shared_gate_up.chunk(2)]
        down = F.pad(self.shared_down, (0, lacking)).view(hidden, -1, inner).transpose(0, 1)  # [S, H, I]
        return (
            torch.cat([self.router, self.shared_gate]),
            torch.cat([self.gate_up, torch.cat(halves, 1).flatten(0, 1)]),
            torch.cat([self.down, down.flatten(0, 1)]),
        )
