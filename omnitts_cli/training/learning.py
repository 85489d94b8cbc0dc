"""What every stage learns with: the precision of its products, and the optimiser, both fit for capture."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from omnitts_cli.devices.device import Device

Capture = Callable[[Callable[[], None]], Callable[[], None]]
"""Records a step; returns what replays it."""


def half(device: Device) -> torch.autocast | nullcontext[None]:
    """bfloat16 where the device is fast at it; the cache would outlive a captured step."""
    if (precision := half_type(device)) is None:
        return nullcontext()
    return torch.autocast(device.torch_device.type, precision, cache_enabled=False)


def half_type(device: Device) -> torch.dtype | None:
    """The precision of products, if it is not that of the weights."""
    return torch.bfloat16 if device.captures else None


def optimiser(
    device: Device, weights: list[nn.Parameter], rate: Tensor, betas: tuple[float, float], weight_decay: float
) -> torch.optim.Optimizer:
    """`rate` is read at every step, so that whoever fills it sets the pace."""
    fast = device.captures
    return torch.optim.AdamW(weights, lr=rate, betas=betas, weight_decay=weight_decay, fused=fast, capturable=fast)
