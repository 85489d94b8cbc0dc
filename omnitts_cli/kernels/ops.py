"""Ops and CodecOps: the tables of operations that layers call.

A device hands them out; the plain twins are the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Product:
    """A product of the codec: y = weight [x(t), x(t + dilation), ...] + bias, normed before and bent behind."""

    weight: Tensor  # [outputs, taps * inputs] operands
    bias: Tensor | None = None  # [outputs] float32
    taps: int = 1
    dilation: int = 1
    eps: float | None = None  # of the RMS norm of x, whose weight is part of `weight`
    bend: str = ""  # "snake", "gelu", "gate" (silu of the first half times the second), or nothing
    scale: Tensor | None = None  # [outputs] float32, of the snake
    inverse: Tensor | None = None
    counts: Tensor | None = None  # int32 zeros, left as zeros: for kernels that share one product out


@dataclass(frozen=True)
class CodecOps:
    """Each entry has the signature and the meaning of its twin in `kernels/plain_codec.py`."""

    operand: torch.dtype  # what products hear; sums are float32
    entries: Callable[..., None]
    product: Callable[..., None]
    unit: Callable[..., None]
    attend: Callable[..., None]
    mix: Callable[..., None]
    close: Callable[..., None]
    hush: Callable[..., None]
    recall: Callable[..., None]
    keep: Callable[..., None]
    ready: Callable[[Callable[[], None]], None]


@dataclass(frozen=True)
class ExpertBlock:
    """Many small gated MLPs: each row chooses some of the first `count`, and hears all that lie behind them."""

    router: Tensor  # [count, H], and one more row where some are heard by all: how loud they are
    gate_up: Tensor  # [experts, 2 I, H], gate over up
    down: Tensor  # [experts, H, I]
    count: int
    chosen: int
    renormalised: bool  # the chosen ones' weights add up to one


@dataclass(frozen=True)
class Block:
    """Weights of one layer of a decoder stack."""

    input_norm: Tensor  # [H]
    qkv: Tensor  # [(heads + 2 kv) D, H]
    q_norm: Tensor  # [D]
    k_norm: Tensor  # [D]
    out: Tensor  # [H, heads * D]
    mlp_norm: Tensor  # [H]
    gate_up: Tensor  # [2 * inner, H], gate over up
    down: Tensor  # [H, inner]


@dataclass(frozen=True)
class Normed:
    """Rows that the next product hears through a norm."""

    rows: Tensor  # [..., H], to which the layer's result will be added
    weight: Tensor  # [H]
    eps: float
    value: Tensor | None = None  # [..., H] the norm, where whoever made the rows has computed it


@dataclass(frozen=True)
class Ops:
    """Each entry has the signature and the meaning of its twin in `kernels/plain.py` or `kernels/plain_frame.py`."""

    linear: Callable[..., Tensor]
    norm: Callable[[Normed], Tensor]
    norm_linear: Callable[[Normed, Tensor], Tensor]
    norm_swiglu: Callable[[Normed, Tensor], Tensor]
    linear_add: Callable[[Tensor, Tensor, Tensor, Tensor, float], Normed]
    attend_cached: Callable[..., Tensor]
    choose: Callable[..., Tensor]
    experts: Callable[[Tensor, Tensor, float, ExpertBlock], Tensor]
    begin: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]]
    first_scores: Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor]
    finish: Callable[..., None]
    codec: CodecOps | None = None  # None: the codec's own layers do the work
    walk: Callable[..., Callable[..., Tensor] | None] | None = None  # makes one operation of a whole small stack
