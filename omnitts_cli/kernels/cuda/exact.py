"""Operations with which a request has the same bits alone and among any others: every product adds in one order,
whatever the number of rows. Products of frames and prompts use the kernels of this package; operations that Triton
computes row by row are unchanged. The codec uses only tiles with one order of addition, so the sound does not depend on
the sizes of chunks either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels.cuda import rows
from omnitts_cli.kernels.cuda.predictor import fuse_predictor
from omnitts_cli.kernels.cuda.talker import fuse_step
from omnitts_cli.kernels.ops import FusedPredictor, FusedStep, LayerWeights, Ops, PredictorParts


def refused() -> DeviceError:
    """The error for `--exact` where it is not supported."""
    return DeviceError(
        "--exact needs a released talker in bf16 on an H100 or H200, or float32 on a CPU",
        hint="leave out --exact   or   -d cpu --dtype fp32",
    )


def _step(layers: Sequence[LayerWeights], norm: Tensor, kv_heads: int, eps: float) -> FusedStep:
    made = fuse_step(layers, norm, kv_heads, eps, exact=True)
    if made is None:
        raise refused()
    return made


def _predictor(parts: PredictorParts) -> FusedPredictor:
    made = fuse_predictor(parts, exact=True)
    if made is None:
        raise refused()
    return made


def exact(ops: Ops) -> Ops:
    """Triton's operations, except those whose sums depend on the number of rows, which are replaced by these."""
    assert ops.codec is not None and ops.codec.ordered is not None
    return replace(
        ops, linear=rows.linear, fuse_step=_step, fuse_predictor=_predictor, codec=ops.codec.ordered, exact=True
    )
