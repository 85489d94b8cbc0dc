"""The fused bookkeeping of a frame does to a table what its plain twin does, whatever state its slots are in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.gpu
Check = Callable[[Callable[..., Any]], None]


def test_begin(begins_alike: Check) -> None:
    from omnitts_cli.kernels.triton.frame import begin

    begins_alike(begin)


def test_first_scores(scores_alike: Check) -> None:
    from omnitts_cli.kernels.triton.frame import first_scores

    scores_alike(first_scores)


def test_finish(finishes_alike: Check) -> None:
    from omnitts_cli.kernels.triton.frame import finish

    finishes_alike(finish)
