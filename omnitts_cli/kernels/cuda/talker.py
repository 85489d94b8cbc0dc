"""A step of the talker for one row as one persistent kernel (`talker.cu`)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import c_int, c_int64, c_void_p
from pathlib import Path

import torch
from torch import Tensor

from omnitts_cli.kernels.cuda import CAPABILITY, THREADS, Overflow
from omnitts_cli.kernels.cuda.layout import PROGRAMS, Layout, norms, suits
from omnitts_cli.kernels.cuda.nvrtc import CompileError, Kernel
from omnitts_cli.kernels.ops import LayerWeights

SOURCE = Path(__file__).with_name("talker.cu")
WORDS = 37_888
SHARED_BYTES = 36 * 4096 + 8 * (2560 + 832) + 512 + 16 + 9 * 16 + 8192 + 128 + 1024 + 2048


class _Step(ctypes.Structure):
    """The kernel's parameter: `struct Step` of talker.cu."""

    _fields_ = (
        *(
            (name, c_void_p)
            for name in ("lines norms cosines sines row position slot keys values hidden sums words overflow".split())
        ),
        ("layer_stride", c_int64),
        ("slot_stride", c_int64),
        ("head_stride", c_int64),
        ("layers", c_int),
    )


class PersistentTalker:
    """All layers and the final norm for one row. See `FusedStep` in `kernels/ops.py`."""

    most_rows = 1

    def __init__(self, layers: Sequence[LayerWeights], norm: Tensor, defines: Mapping[str, int]) -> None:
        blocks = norm.shape[0] // 1024
        macros = {"ROWS": 1, "BLOCKS": blocks, "BUSY_AHEAD": 2 * blocks, **defines}
        self._kernel = Kernel(SOURCE, "talker_step", macros, "sm_90a", PROGRAMS, THREADS, SHARED_BYTES)
        layout = Layout(norm.device, blocks)
        numbers = sum(getattr(layers[0], name).numel() for name in ("qkv", "out", "gate_up", "down"))
        self._lines = norm.new_empty(len(layers), PROGRAMS, numbers // PROGRAMS)
        for line, weights in zip(self._lines, layers, strict=True):
            line.copy_(layout.layer(weights, alone=True))
        self._norms = norms(layers, norm)
        self._layers, self._sums = len(layers), 4 * 128 * blocks * 1024
        self._state = torch.zeros(self._sums + 4 * WORDS, dtype=torch.uint8, device=norm.device)
        self._overflow = Overflow()
        self.check = self._overflow.check

    def __call__(
        self, row: Tensor, position: Tensor, slot: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        row, position, slot = row.contiguous(), position.contiguous(), slot.contiguous()
        hidden = torch.empty_like(row)
        self._state.zero_()
        state = self._state.data_ptr()
        self._kernel.launch(
            _Step(
                self._lines.data_ptr(),
                self._norms.data_ptr(),
                cos.data_ptr(),
                sin.data_ptr(),
                row.data_ptr(),
                position.data_ptr(),
                slot.data_ptr(),
                keys.data_ptr(),
                values.data_ptr(),
                hidden.data_ptr(),
                state,
                state + self._sums,
                self._overflow.address,
                *keys.stride()[:3],
                self._layers,
            )
        )
        return hidden


def fuse_step(
    layers: Sequence[LayerWeights], norm: Tensor, kv_heads: int, eps: float, defines: Mapping[str, int] | None = None
) -> PersistentTalker | None:
    """The kernel for these weights; None where it does not fit. `defines` are macros, for tests."""
    device, blocks = norm.device, norm.shape[0] // 1024
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != CAPABILITY:
        return None
    if blocks not in (1, 2) or not suits(layers, blocks, eps, kv_heads):
        return None
    try:
        with torch.cuda.device(device):
            return PersistentTalker(layers, norm, defines or {})
    except (CompileError, torch.cuda.OutOfMemoryError):  # the weights lie in memory once more
        return None
