"""Source: the tensors of a checkpoint from which one of our parameters is made. A rename table is a dict from the full
name of a parameter or buffer to a Source. Families write the tables, `weights/load.py` reads them, and training's
export applies them backwards.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


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
    compute: Callable[..., np.ndarray]


Source = One | Join | Stack | Derived
Names = dict[str, Source]
