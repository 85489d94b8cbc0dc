"""For tests of kernels: whether there is a Hopper GPU, rotary embeddings, random tensors, relative errors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
NEEDS_HOPPER = [pytest.mark.gpu, pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU")]


def rotations(positions: int, device: str = "cuda") -> tuple[Tensor, Tensor]:
    """Cosines and sines of the released talker's rotary embedding, [positions, 64] each."""
    angle = torch.arange(positions, device=device)[:, None] * 1e6 ** -(torch.arange(64, device=device) / 64)
    return angle.cos(), angle.sin()


def random(*shape: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """Normal values that are the same on every device."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(device)


def relative_error(got: Tensor, wanted: Tensor) -> float:
    """The norm of the difference, divided by that of the wanted tensor."""
    return float((got.float() - wanted.float()).norm() / wanted.float().norm())
