"""The device's table of slots."""

from __future__ import annotations

import torch

from omnitts_cli.engine.slots import Plan, SlotTable
from omnitts_cli.models.roles import Facts

FACTS = Facts(
    groups=3, codes=8, vocabulary=12, end_code=9, hidden=4, sample_rate=8000, samples_per_frame=640, max_positions=99
)


def test_a_table_has_a_spare_row_and_holds_still() -> None:
    table = SlotTable.empty(Plan.of(3, 2, 12.5), FACTS, torch.device("cpu"), torch.float32)
    assert table.codes.shape == (4, 26, 3) and table.report.shape == (2, 4)
    table.made[1], table.stop[2] = 7, 3
    assert table.report.tolist() == [[0, 7, 0, 0], [0, 0, 3, 0]]  # views of what the host reads
    assert not table.live.any()
