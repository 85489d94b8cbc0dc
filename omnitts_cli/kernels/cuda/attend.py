"""The predictor's attention for 17 to 256 rows as one kernel, which begins before the previous kernel ends
(`attend.cu`)."""

from __future__ import annotations

import ctypes
import functools
from ctypes import c_float, c_int64, c_void_p
from pathlib import Path

import torch
from torch import Tensor

from omnitts_cli.kernels.cuda.nvrtc import CompileError, Kernel

SOURCE = Path(__file__).with_name("attend.cu")
KV_HEADS, HEADS, DEPTH, WARPS = 8, 16, 128, 4
LEAST, MOST = 17, 256
"""Rows for which it is used."""
SHORT = 16
"""The capacity of the predictor's cache. The talker uses the kernel in Triton, which was as fast there
(benchmarks/LOG.md)."""


class _Attend(ctypes.Structure):
    """The kernel's parameter: `struct Attend` of attend.cu."""

    _fields_ = (
        *((name, c_void_p) for name in "qkv query_norm key_norm cosines sines positions slots keys values out".split()),
        ("capacity", c_int64),
        ("eps", c_float),
    )


@functools.cache
def _kernel() -> Kernel | None:
    """None where it cannot be compiled."""
    try:
        return Kernel(SOURCE, "attend", {}, "sm_90a", 0, 32 * WARPS, WARPS * (512 + 128), early=True)
    except CompileError:
        return None


def suits(qkv: Tensor, keys: Tensor, positions: Tensor) -> bool:
    """Whether the kernel is used: one position a row, heads of the released models, the predictor's cache."""
    shape = qkv.shape[-1] == (HEADS + 2 * KV_HEADS) * DEPTH and keys.shape[1] == KV_HEADS and keys.shape[3] == DEPTH
    kind = qkv.dtype == keys.dtype == torch.bfloat16 and keys.is_contiguous() and qkv.is_contiguous()
    fits = positions.shape[1] == 1 and LEAST <= positions.shape[0] <= MOST and keys.shape[2] <= SHORT
    return shape and kind and fits and _kernel() is not None


def attend(
    qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor,
    keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor,
) -> Tensor:  # fmt: skip
    """As `AttendCached` in `kernels/ops.py`."""
    rows, capacity, kernel = positions.shape[0], keys.shape[2], _kernel()
    assert kernel is not None, "`suits` has made it"
    out = torch.empty((rows, 1, HEADS * DEPTH), dtype=qkv.dtype, device=qkv.device)
    given = qkv, q_weight, k_weight, cos, sin, positions.contiguous(), slots.contiguous(), keys, values, out
    arguments = _Attend(*(x.data_ptr() for x in given), capacity, eps)
    kernel.launch(arguments, KV_HEADS * rows // WARPS)
    return out
