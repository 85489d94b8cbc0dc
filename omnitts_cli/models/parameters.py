"""Parameters of networks that are to be trained."""

import torch
from torch import nn


def random(*shape: int, std: float = 0.02) -> nn.Parameter:
    """A parameter with random values; without values on "meta", where filling would import torch's compiler (3 s)."""
    values = torch.empty(shape)
    return nn.Parameter(values if values.is_meta else values.normal_(std=std))
