"""Ops: the table of operations that layers call. A device hands one out; the plain twin is the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Ops:
    """Each entry has the signature and the meaning of its twin in `kernels/plain.py`."""

    linear: Callable[..., Tensor]
    rms_norm: Callable[[Tensor, Tensor, float], Tensor]
    norm_linear: Callable[[Tensor, Tensor, float, Tensor], Tensor]
    norm_swiglu: Callable[[Tensor, Tensor, float, Tensor], Tensor]
    linear_add: Callable[[Tensor, Tensor, Tensor], Tensor]
    attend_cached: Callable[..., Tensor]
    choose: Callable[..., Tensor]
