"""The fused bookkeeping of a frame does to a table what its plain version does, whatever state its slots are in."""

import pytest
import torch
from frame_table import begins_alike, finishes_alike, scores_alike

from omnitts_cli.kernels import plain_frame

pytestmark = pytest.mark.gpu


def test_begin(where: torch.device, dtype: torch.dtype) -> None:
    from omnitts_cli.kernels.triton.frame import begin

    begins_alike(begin, where, dtype)


def test_first_scores(where: torch.device, dtype: torch.dtype) -> None:
    from omnitts_cli.kernels.triton.frame import first_scores

    scores_alike(first_scores, where, dtype)


def test_finish(where: torch.device, dtype: torch.dtype) -> None:
    from omnitts_cli.kernels.triton.frame import finish

    finishes_alike(finish, where, dtype)


def test_pick(where: torch.device) -> None:
    """The columns of a frame's controls in any order, and other columns too."""
    from omnitts_cli.kernels.triton.frame import pick

    kinds = [torch.int64, torch.float32, torch.int64, torch.float32, torch.bool] + [torch.float32] * 3 + [torch.int64]
    columns = [(torch.arange(7) * (index + 1) % 5).to(where, kind) for index, kind in enumerate(kinds)]
    slots = torch.tensor([6, 0, 3, 3], device=where)
    for some in (columns, columns[:4]):
        for fast, truth in zip(pick(some, slots), plain_frame.pick(some, slots), strict=True):
            assert fast.dtype == truth.dtype and torch.equal(fast, truth)
