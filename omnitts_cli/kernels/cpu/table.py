"""Operations of the compiled library on tensors of PyTorch. The library is the first argument."""

from typing import Any

import torch
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cpu import networks, quantised
from omnitts_cli.kernels.cpu.library import Library, QuantisedLibrary
from omnitts_cli.kernels.ops import Normed


def linear(native: QuantisedLibrary, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., inputs] -> [..., outputs], for a matrix in 8 bits."""
    y = torch.from_numpy(quantised.multiply(native, x, weight))
    return y if bias is None else y.add_(bias)


def norm_linear(native: QuantisedLibrary, x: Normed, weight: Tensor) -> Tensor:
    """The same after a norm."""
    return linear(native, plain.norm(x), weight)


def choose(native: Library, *given: Any) -> Tensor:
    """One code per row: [B] int64."""
    return torch.from_numpy(networks.choose(native, *given))
