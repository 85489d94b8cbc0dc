"""Bookkeeping slot by slot does to a table what the plain operations do."""

import pytest
import torch
from frame_table import begins_alike, finishes_alike, scores_alike

from omnitts_cli.kernels.cpu.frame import begin, finish, first_scores


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_frame_is_that_of_the_plain_operations(dtype: torch.dtype) -> None:
    cpu = torch.device("cpu")
    begins_alike(begin, cpu, dtype)
    scores_alike(first_scores, cpu, dtype)
    finishes_alike(finish, cpu, dtype)
