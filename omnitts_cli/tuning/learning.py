"""What all stages share: the precision of products, and the optimiser. Both can be captured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from omnitts_cli.devices.device import Device

Capture = Callable[[Callable[[], None]], Callable[[], None]]
"""Records a step; returns what replays it."""


def half(device: Device) -> torch.autocast | nullcontext[None]:
    """Autocast to bfloat16 where the device captures. Without its cache, which would outlive a captured step."""
    if (precision := half_type(device)) is None:
        return nullcontext()
    return torch.autocast(device.torch_device.type, precision, cache_enabled=False)


def half_type(device: Device) -> torch.dtype | None:
    """The precision of products, or None if it is that of the weights."""
    return torch.bfloat16 if device.captures else None


def optimiser(
    device: Device, weights: list[nn.Parameter], rate: Tensor, betas: tuple[float, float], weight_decay: float
) -> torch.optim.Optimizer:
    """AdamW. It reads the tensor `rate` at every step, so a schedule only has to fill it."""
    fast = device.captures
    return torch.optim.AdamW(weights, lr=rate, betas=betas, weight_decay=weight_decay, fused=fast, capturable=fast)
