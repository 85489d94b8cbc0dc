"""What all stages share: the precision of products, and the optimiser. Both can be captured."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from omnitts_cli.devices.device import Device
from omnitts_cli.errors import OmniError
from omnitts_cli.tuning.room import SCRATCH


class Capture(Protocol):
    """`Stream.capture`: records a step; returns what replays it."""

    def __call__(self, step: Callable[[], None], keeps: bool = False) -> Callable[[], None]: ...


def check_finite(losses: dict[str, float], steps: int) -> None:
    """Stops a training that can no longer learn, before it saves its weights."""
    if bad := [name for name, value in losses.items() if not math.isfinite(value)]:
        raise OmniError(f"after {steps} steps these losses are not numbers: {', '.join(bad)}")


def half(device: Device) -> torch.autocast | nullcontext[None]:
    """Autocast to bfloat16 where the device captures. Without its cache, which would outlive a captured step."""
    if (precision := half_type(device)) is None:
        return nullcontext()
    return torch.autocast(device.torch_device.type, precision, cache_enabled=False)


def half_type(device: Device) -> torch.dtype | None:
    """The precision of products, or None if it is that of the weights."""
    return torch.bfloat16 if device.captures else None


def optimiser(
    device: Device,
    weights: list[nn.Parameter],
    rate: Tensor,
    betas: tuple[float, float],
    weight_decay: float,
    half_moments: bool = False,
) -> torch.optim.Optimizer:
    """AdamW. It reads the tensor `rate` at every step, so a schedule only has to fill it."""
    fast = device.captures
    if half_moments:
        return HalfMoments(weights, rate, betas, weight_decay, fast)
    return torch.optim.AdamW(weights, lr=rate, betas=betas, weight_decay=weight_decay, fused=fast, capturable=fast)


class HalfMoments(torch.optim.Optimizer):
    """AdamW whose moments are bfloat16 between steps. A step widens those of some numbers at a time, so that the update
    itself is PyTorch's.

    Rounding to the nearest loses changes of a moment below 0.4 %. With factors of 0.9 and 0.95, a step replaces 10 and
    5 % of the moments, so they follow the gradients; with a second factor of 0.999 they would stand still.
    """

    def __init__(
        self, weights: list[nn.Parameter], rate: Tensor, betas: tuple[float, float], weight_decay: float, fast: bool,
        kept: torch.dtype = torch.bfloat16, together: int = SCRATCH,
    ) -> None:  # fmt: skip
        """`together`: numbers whose moments are wide at a time."""
        super().__init__(weights, {"lr": rate, "betas": betas, "weight_decay": weight_decay})
        self._fast, self._kept, self._together = fast, kept, together
        size = min(together, max(one.numel() for one in weights))
        self._wide = [torch.zeros(size, device=rate.device) for _ in range(2)]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is None
        group = self.param_groups[0]
        for weight in group["params"]:
            if weight.grad is None:
                continue
            state = self.state[weight]
            if not state:
                state["step"] = torch.zeros((), device=group["lr"].device)
                state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(weight, dtype=self._kept) for _ in range(2))
            moments = state["exp_avg"], state["exp_avg_sq"]
            pieces = zip(*(one.view(-1).split(self._together) for one in (weight, weight.grad, *moments)), strict=True)
            for piece, gradient, *kept in pieces:
                wide = [one[: len(piece)].copy_(own) for one, own in zip(self._wide, kept, strict=True)]
                adamw(
                    [piece], [gradient], [wide[0]], [wide[1]], [], [state["step"].clone()], foreach=False,
                    capturable=self._fast, fused=self._fast, amsgrad=False, beta1=group["betas"][0],
                    beta2=group["betas"][1], lr=group["lr"], weight_decay=group["weight_decay"], eps=1e-8,
                    maximize=False,
                )  # fmt: skip
                for one, own in zip(wide, kept, strict=True):
                    own.copy_(one)
            state["step"] += 1
