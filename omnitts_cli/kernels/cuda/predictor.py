"""The predictor's passes, heads and draws of one frame as one persistent kernel (`predictor.cu`), for up to 8 rows."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_int, c_void_p
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from omnitts_cli.kernels.cuda import CAPABILITY, THREADS, Overflow
from omnitts_cli.kernels.cuda.layout import PROGRAMS, Layout, norms, suits
from omnitts_cli.kernels.cuda.nvrtc import CompileError, Kernel
from omnitts_cli.kernels.ops import PredictorParts

SOURCE = Path(__file__).with_name("predictor.cu")
LAYERS, HIDDEN = 5, 1024
GROUPS, CODES = 16, 2048
MOST_ROWS = 8


class _Frame(ctypes.Structure):
    """The kernel's parameter: `struct Frame` of predictor.cu."""

    _fields_ = (
        *(
            (name, c_void_p)
            for name in (
                "lines heads norms turns hidden first tables first_codes seeds frames temperature top_k top_p codes "
                "logits sums words overflow"
            ).split()
        ),
        ("rows", c_int),
    )


@dataclass
class _Variant:
    """The kernel for one row, or for up to eight, with the weights in its order."""

    kernel: Kernel
    lines: Tensor
    heads: Tensor
    state: Tensor  # bytes: sums, then words
    sums: int  # bytes of `sums` in it

    @staticmethod
    def of(parts: PredictorParts, alone: bool, defines: Mapping[str, int]) -> _Variant:
        device = parts.norm.device
        layout, rows = Layout(device), 1 if alone else MOST_ROWS
        shared = 36 * 4096 + 8 * (2560 + 576 + 832 + 128) + 512 + 16 + 128 + 40960 + (9 if alone else 18) * 16
        kernel = Kernel(
            SOURCE,
            "predictor_frame",
            {"ROWS": rows, "BUSY_AHEAD": 2 if alone else 4, **defines},
            "sm_90a",
            PROGRAMS,
            THREADS,
            shared,
        )
        sums = 4 * rows * 128 * (1024 if alone else 64)
        return _Variant(
            kernel=kernel,
            lines=torch.stack([layout.layer(weights, alone) for weights in parts.layers]),
            heads=torch.stack([layout.head(head, alone) for head in parts.heads]),
            state=torch.zeros(sums + 4 * rows * 11266, dtype=torch.uint8, device=device),
            sums=sums,
        )


class PersistentPredictor:
    """Codes of a frame from the talker's state and the row of group 0. See `FusedPredictor` in `kernels/ops.py`."""

    most_rows = MOST_ROWS

    def __init__(self, parts: PredictorParts, defines: Mapping[str, int]) -> None:
        self._variants = {alone: _Variant.of(parts, alone, defines) for alone in (True, False)}
        self._norms = norms(parts.layers, parts.norm)
        self._turns = torch.cat([parts.cos, parts.sin], 1).float().contiguous()
        self._tables = parts.tables
        self._overflow = Overflow()
        self.check = self._overflow.check

    def __call__(
        self,
        hidden: Tensor,
        first: Tensor,
        first_codes: Tensor,
        seeds: Tensor,
        frames: Tensor,
        temperature: Tensor,
        top_k: Tensor,
        top_p: Tensor,
        logits: Tensor | None = None,
    ) -> Tensor:
        rows = hidden.shape[0]
        variant = self._variants[rows == 1]
        # for the columns of the engine this copies nothing
        given = [x.contiguous() for x in (hidden, first, first_codes, seeds, frames, temperature, top_k, top_p)]
        codes = torch.empty(rows, GROUPS, dtype=torch.int64, device=hidden.device)
        variant.state.zero_()
        state = variant.state.data_ptr()
        variant.kernel.launch(
            _Frame(
                variant.lines.data_ptr(),
                variant.heads.data_ptr(),
                self._norms.data_ptr(),
                self._turns.data_ptr(),
                given[0].data_ptr(),
                given[1].data_ptr(),
                self._tables.data_ptr(),
                *(x.data_ptr() for x in given[2:]),
                codes.data_ptr(),
                0 if logits is None else logits.data_ptr(),
                state,
                state + variant.sums,
                self._overflow.address,
                rows,
            )
        )
        return codes


def _suits(parts: PredictorParts) -> bool:
    """Whether the kernel was written for these shapes."""
    return (
        len(parts.layers) == LAYERS
        and suits(parts.layers, 1, parts.eps, parts.kv_heads)
        and tuple(parts.heads.shape) == (GROUPS - 1, CODES, HIDDEN)
        and tuple(parts.tables.shape) == (GROUPS - 2, CODES, HIDDEN)
        and parts.norm.dtype == torch.bfloat16
    )


def fuse_predictor(parts: PredictorParts, defines: Mapping[str, int] | None = None) -> PersistentPredictor | None:
    """The kernel for these weights; None where it does not fit. `defines` are macros, for tests."""
    device = parts.norm.device
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != CAPABILITY or not _suits(parts):
        return None
    try:
        with torch.cuda.device(device):
            return PersistentPredictor(parts, defines or {})
    except (CompileError, torch.cuda.OutOfMemoryError):  # the weights lie in memory once more
        return None
