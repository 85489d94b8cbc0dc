"""Source: the tensors of a checkpoint from which one of our parameters is made. A rename table is a dict from the full
name of a parameter or buffer to a Source. Families write the tables, `weights/load.py` reads them, and training's
export applies them backwards. `random` makes a parameter of a network that is to be trained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class One:
    """The tensor as it is."""

    name: str


@dataclass(frozen=True)
class Join:
    """Several tensors one after another along their first axis (q, k, v -> one projection)."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Stack:
    """Several tensors of one shape, on a new first axis (one table per code group)."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Derived:
    """Computed once from several tensors, in float32 (codebook = sum / usage)."""

    names: tuple[str, ...]
    compute: Callable[..., Tensor]


Source = One | Join | Stack | Derived
Names = dict[str, Source]


def random(*shape: int, std: float = 0.02) -> nn.Parameter:
    """A parameter with random values; without values on "meta", where filling would import torch's compiler (3 s)."""
    values = torch.empty(shape)
    return nn.Parameter(values if values.is_meta else values.normal_(std=std))
