"""Source: where one of our parameters comes from among the tensors of a checkpoint.

A rename table is a plain dict from the full name of a parameter or buffer of ours to a Source.
Families write the tables, `weights/load.py` reads them, training's export walks them backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


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
