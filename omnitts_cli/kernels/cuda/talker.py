"""A step of the talker as one persistent kernel for up to 8 rows (`talker.cu`), layer by layer for more (`rows.py`)."""

from collections.abc import Callable, Mapping, Sequence
from ctypes import c_int, c_int64
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from omnitts_cli.kernels.cuda import THREADS, Overflow
from omnitts_cli.kernels.cuda.layout import PROGRAMS, Lines, norms
from omnitts_cli.kernels.cuda.nvrtc import CompileError, Kernel, structure
from omnitts_cli.kernels.cuda.rows import MANY, RowLayers, RowTalker
from omnitts_cli.kernels.ops import LayerWeights

SOURCE = Path(__file__).with_name("talker.cu")
MOST_ROWS = 8
"""Of the one kernel."""


_Step = structure(
    "_Step",
    "lines down norms cosines sines input positions slots keys values hidden sums words overflow",
    *((name, c_int64) for name in ("layer_stride", "slot_stride", "head_stride")),
    ("layers", c_int),
    ("rows", c_int),
)
"""`struct Step` of talker.cu."""


@dataclass
class _Variant:
    """The kernel for one row or for up to eight. `exact`: a row has the same bits alone and among others."""

    kernel: Kernel
    state: Tensor  # uint8: sums, then words
    sums: int  # bytes of the sums in it

    @staticmethod
    def of(norm: Tensor, alone: bool, exact: bool, defines: Mapping[str, int]) -> "_Variant":
        blocks, rows = norm.shape[0] // 1024, 1 if alone else MOST_ROWS
        warp, units, attended = 2560 if blocks == 1 else 3328, 768 * blocks + 64, 256 if alone else 576
        shared = 36 * 4096 + 8 * (warp + units + attended) + 512 + 16 + (9 if alone else 18) * 16 + 8192 + 128 + 1024
        busy = 2 if alone and blocks == 1 else 4
        macros = {"ROWS": rows, "BLOCKS": blocks, "BUSY_AHEAD": busy, "FINE": int(exact), **defines}
        kernel = Kernel(SOURCE, "talker_step", macros, "sm_90a", PROGRAMS, THREADS, shared)
        sums = 4 * rows * 128 * blocks * (1024 if alone else 64)
        words = rows * 4096 + 32768 + 1024 + (0 if alone else 8 * 3072 * blocks)
        state = torch.zeros(sums + 4 * words, dtype=torch.uint8, device=norm.device)
        return _Variant(kernel, state, sums)


class PersistentTalker:
    """All layers and the final norm for one position of each row. See `FusedStep` in `kernels/ops.py`.

    `exact`: each row has the same bits as alone.
    """

    def __init__(
        self,
        layers: Sequence[LayerWeights],
        norm: Tensor,
        defines: Mapping[str, int],
        exact: bool = False,
        most_rows: int = MANY,
    ) -> None:
        self._variants = {alone: _Variant.of(norm, alone, exact, defines) for alone in (True, False)}
        self._lines, self._norms, self._layers = Lines.of(layers, exact), norms(layers, norm), len(layers)
        self._overflow = Overflow()
        self.check = self._overflow.check
        self.most_rows, self._exact = most_rows, exact
        rows = RowLayers(self._lines.layers, self._norms, self._overflow.address, predictor=False, fine=exact)
        self._many = RowTalker(rows)

    def prompts(self, rows: Tensor, attend: Callable[[int, Tensor], Tensor]) -> Tensor | None:
        """As `FusedStep.prompts`."""
        return self._many.prompts(rows, attend) if self._exact else None

    def __call__(
        self, rows: Tensor, positions: Tensor, slots: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        if rows.shape[0] > MOST_ROWS:
            return self._many.step(rows, positions, slots, cos, sin, keys, values)
        variant = self._variants[rows.shape[0] == 1]
        rows, positions, slots = rows.contiguous(), positions.contiguous(), slots.contiguous()
        hidden = torch.empty_like(rows)
        variant.state.zero_()
        state = variant.state.data_ptr()
        weights = self._lines.layers, self._lines.down, self._norms
        given = cos, sin, rows, positions, slots, keys, values, hidden
        variant.kernel.launch(
            _Step(
                *(x.data_ptr() for x in (*weights, *given)),
                state,
                state + variant.sums,
                self._overflow.address,
                *keys.stride()[:3],
                self._layers,
                rows.shape[0],
            )
        )
        return hidden


def fuse_step(
    layers: Sequence[LayerWeights],
    norm: Tensor,
    kv_heads: int,
    eps: float,
    defines: Mapping[str, int] | None = None,
    exact: bool = False,
    most_rows: int = MANY,
) -> PersistentTalker | None:
    """The kernel for these weights, or None if it cannot be compiled or does not fit. `defines`: macros, for tests."""
    try:
        with torch.cuda.device(norm.device):
            return PersistentTalker(layers, norm, defines or {}, exact, most_rows)
    except (CompileError, torch.cuda.OutOfMemoryError):  # the reordered weights are a second copy
        return None
