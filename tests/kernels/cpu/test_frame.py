"""Bookkeeping slot by slot does to a table what the plain operations do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from omnitts_cli.kernels.cpu.frame import begin, finish, first_scores

Check = Callable[[Callable[..., Any]], None]


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


def test_begin(begins_alike: Check) -> None:
    begins_alike(begin)


def test_first_scores(scores_alike: Check) -> None:
    scores_alike(first_scores)


def test_finish(finishes_alike: Check) -> None:
    finishes_alike(finish)
