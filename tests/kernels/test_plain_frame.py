"""A frame's bookkeeping: why a slot stops. What slots read and write is in tests/engine/test_frame.py."""

from __future__ import annotations

import torch

from omnitts_cli.kernels.plain_frame import BROKEN, END, LIMIT, RUNNING, STALL, stop_reasons


def test_reasons_to_stop_and_which_wins() -> None:
    no, yes = torch.tensor([False]), torch.tensor([True])

    def why(ended: torch.Tensor, broken: torch.Tensor, made: int, repeats: int) -> int:
        return int(stop_reasons(ended, broken, torch.tensor([made]), torch.tensor([9]), torch.tensor([repeats]), 5))

    assert why(no, no, 8, 4) == RUNNING
    assert why(no, no, 8, 5) == STALL
    assert why(no, no, 9, 5) == LIMIT
    assert why(yes, no, 9, 5) == END
    assert why(yes, yes, 9, 5) == BROKEN
