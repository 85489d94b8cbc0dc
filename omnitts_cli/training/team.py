"""Data-parallel training: processes on several accelerators of one machine that share every update, or one alone.

Each member has its own dataset, so n members learn from n times as much speech. They begin with the same weights and
stay equal, because all use the mean of their gradients.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as group
from torch import Tensor, nn

from omnitts_cli.devices.choose import choose
from omnitts_cli.devices.device import Device


def joined_gradients(weights: list[nn.Parameter]) -> Tensor:
    """One tensor of which the gradients of all weights are views, so that one exchange is enough."""
    joined = torch.zeros(sum(w.numel() for w in weights), device=weights[0].device)
    for weight, part in zip(weights, joined.split([w.numel() for w in weights]), strict=True):
        weight.grad = part.as_strided(weight.shape, weight.stride())  # laid out as the weight is
    return joined


class Team:
    """`torchrun --nproc-per-node N` starts N members; without it there is one."""

    def __init__(self) -> None:
        self.size, self.rank = 1, 0
        if group.is_available() and group.is_torchelastic_launched():
            group.init_process_group()
            self.size, self.rank = group.get_world_size(), group.get_rank()

    @property
    def leads(self) -> bool:
        """The first member keeps the journal and the checkpoints."""
        return self.rank == 0

    @property
    def curves(self) -> str:
        """The file of this member's journal."""
        return "curves.jsonl" if self.leads else f"curves.{self.rank}.jsonl"

    def device(self, name: str) -> str:
        """A device name without a number means: each member takes its own."""
        if self.size > 1 and name == "auto":
            name = choose(name).name.partition(":")[0]
        return f"{name}:{self.rank}" if self.size > 1 and name in ("cuda", "npu") else name

    @torch.no_grad()
    def start_alike(self, weights: Iterable[Tensor]) -> None:
        """Copies the leader's tensors to every member."""
        if self.size > 1:
            for weight in weights:
                plain = weight.contiguous()
                group.broadcast(plain, 0)
                weight.copy_(plain)

    @torch.no_grad()
    def average(self, gradients: Tensor) -> None:
        """Replaces a tensor on every member by the mean over all members."""
        if self.size > 1:
            group.all_reduce(gradients)
            gradients /= self.size

    def agree(self, value: float, device: Device) -> float:
        """Returns the leader's number on every member, so that all stop at the same step."""
        if self.size == 1:
            return value
        number = torch.tensor(value, dtype=torch.float64, device=device.torch_device)
        group.broadcast(number, 0)
        return float(number)

    def close(self) -> None:
        if self.size > 1:
            group.destroy_process_group()
