"""The predictor's passes, heads and draws of one frame as one persistent kernel (`predictor.cu`) for up to 16 rows; for
more, layer by layer (`rows.py`).
"""

from collections.abc import Mapping
from ctypes import c_int
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from omnitts_cli.kernels.cuda import THREADS, Overflow
from omnitts_cli.kernels.cuda.layout import PROGRAMS, Layout, Lines, norms
from omnitts_cli.kernels.cuda.nvrtc import CompileError, Kernel, place, structure
from omnitts_cli.kernels.cuda.rows import RowLayers, RowPredictor
from omnitts_cli.kernels.ops import PredictorParts

SOURCE = Path(__file__).with_name("predictor.cu")
GROUPS = 16
SIZES = (1, 8, 16)
"""Batch sizes of the compiled variants. A batch is padded to the next size."""


_Frame = structure(
    "_Frame",
    "lines down heads norms turns hidden first tables first_codes seeds frames temperature top_k top_p codes logits "
    "sums words overflow",
    ("rows", c_int),
)
"""`struct Frame` of predictor.cu."""


@dataclass
class _Variant:
    """The kernel for up to `rows` rows."""

    kernel: Kernel
    state: Tensor  # uint8: sums, then words
    sums: int  # bytes of the sums in it

    @staticmethod
    def of(rows: int, device: torch.device, exact: bool, defines: Mapping[str, int]) -> "_Variant":
        alone, eights, ring = rows == 1, -(-rows // 8), 34 if rows == 16 else 36
        shared = ring * 4096 + ring // (4 if alone else 2) * 16 + eights * (8 * (832 + 576) + 512)
        shared += 8 * ((2560 if eights == 1 else 3328) + 128) + 16 + 128 + 40960
        macros = {"ROWS": rows, "BUSY_AHEAD": 2 if alone else 4, "FINE": int(exact), **defines}
        kernel = Kernel(SOURCE, "predictor_frame", macros, "sm_90a", PROGRAMS, THREADS, shared)
        sums = 4 * rows * 128 * (1024 if alone else 64)
        state = torch.zeros(sums + 4 * rows * 11266, dtype=torch.uint8, device=device)
        return _Variant(kernel, state, sums)


class PersistentPredictor:
    """Codes of a frame from the talker's state and the row of group 0. See `FusedPredictor` in `kernels/ops.py`.

    `exact`: any number of rows, each with the same bits as alone.
    """

    def __init__(
        self, parts: PredictorParts, defines: Mapping[str, int], exact: bool = False, most_rows: int = SIZES[-1]
    ) -> None:
        self._lines, layout = Lines.of(parts.layers, exact), Layout(parts.norm.device)
        self._heads = torch.stack([layout.head(head) for head in parts.heads])
        self._variants = {rows: _Variant.of(rows, parts.norm.device, exact, defines) for rows in SIZES}
        self._norms = norms(parts.layers, parts.norm)
        self._turns = torch.cat([parts.cos, parts.sin], 1).float().contiguous()
        self._tables = parts.tables
        self._overflow = Overflow()
        self.check = self._overflow.check
        self.most_rows = most_rows
        self._many: RowPredictor | None = None
        if exact:
            layers = RowLayers(self._lines.layers, self._norms, self._overflow.address, predictor=True, fine=True)
            self._many = RowPredictor(layers, self._heads, self._turns, self._tables)

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
        # no copy for the engine's columns
        given = [x.contiguous() for x in (hidden, first, first_codes, seeds, frames, temperature, top_k, top_p)]
        if self._many is not None and rows > SIZES[-1]:
            return self._many(given[0], given[1], given[2], given[3:], logits)
        variant = self._variants[next(size for size in SIZES if size >= rows)]
        codes = torch.empty(rows, GROUPS, dtype=torch.int64, device=hidden.device)
        variant.state.zero_()
        state = variant.state.data_ptr()
        weights = self._lines.layers, self._lines.down, self._heads, self._norms, self._turns
        variant.kernel.launch(
            _Frame(
                *(x.data_ptr() for x in weights),
                *(x.data_ptr() for x in (*given[:2], self._tables, *given[2:], codes)),
                place(logits),
                state,
                state + variant.sums,
                self._overflow.address,
                rows,
            )
        )
        return codes


def fuse_predictor(
    parts: PredictorParts,
    defines: Mapping[str, int] | None = None,
    exact: bool = False,
    most_rows: int = SIZES[-1],
) -> PersistentPredictor | None:
    """The kernel for these weights, or None if it cannot be compiled or does not fit. `defines`: macros, for tests."""
    try:
        with torch.cuda.device(parts.norm.device):
            return PersistentPredictor(parts, defines or {}, exact, most_rows)
    except (CompileError, torch.cuda.OutOfMemoryError):  # the reordered weights are a second copy
        return None
