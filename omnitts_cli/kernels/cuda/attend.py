"""Attention of a frame as one kernel, which begins before the previous kernel ends: `attend.cu` for the predictor's
short cache, `attend_long.cu` for the talker's."""

import functools
from ctypes import c_float, c_int64
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from omnitts_cli.kernels.cuda.nvrtc import CompileError, Kernel, structure

SOURCE = Path(__file__).with_name("attend.cu")
LONG_SOURCE = Path(__file__).with_name("attend_long.cu")
KV_HEADS, HEADS, DEPTH, WARPS = 8, 16, 128, 4
SHORT = 16
"""The capacity of the predictor's cache."""
BOXES, BOX = 3, 4096
"""Blocks of keys or values that each warp of `attend_long.cu` holds in shared memory, and their bytes."""


_Attend = structure(
    "_Attend",
    "qkv query_norm key_norm cosines sines positions slots keys values out",
    ("capacity", c_int64),
    ("eps", c_float),
)
"""`struct Attend` of attend.cuh."""


@functools.cache
def _kernel(long: bool) -> Kernel | None:
    """None where it cannot be compiled."""
    source, shared = (LONG_SOURCE, BOXES * BOX) if long else (SOURCE, 512 + 128)
    try:
        return Kernel(source, "attend", {}, "sm_90a", 0, 32 * WARPS, WARPS * shared, early=True)
    except CompileError:
        return None


def compiled(call: Any) -> bool:
    """Whether the kernel for a call has been compiled, or can be."""
    return _kernel(call.capacity > SHORT) is not None


def attend(
    qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor,
    keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor, width: int,
) -> Tensor:  # fmt: skip
    """As `AttendCached` in `kernels/ops.py`; `width` is not used."""
    rows, capacity = positions.shape[0], keys.shape[2]
    kernel = _kernel(capacity > SHORT)
    assert kernel is not None, "`compiled` has made it"
    out = torch.empty((rows, 1, HEADS * DEPTH), dtype=qkv.dtype, device=qkv.device)
    given = qkv, q_weight, k_weight, cos, sin, positions.contiguous(), slots.contiguous(), keys, values, out
    arguments = _Attend(*(x.data_ptr() for x in given), capacity, eps)
    kernel.launch(arguments, KV_HEADS * rows // WARPS)
    return out
