"""One frame of many slots in C: what it does to their columns. What each operation does: kernels/cpu/test_frame.py."""

import copy

import pytest
import torch

from omnitts_cli.engine.slots import Plan, SlotTable, Stop
from omnitts_cli.models.networks import frame, fused_frame
from omnitts_cli.models.roles import SpeechModel


def table_of(model: SpeechModel, slots: int) -> SlotTable:
    plan = Plan.of(slots, 2, 12.5, text_rows=4)
    table = SlotTable.empty(plan, model.facts, torch.device("cpu"), torch.float32)
    generator = torch.Generator().manual_seed(0)
    for column in (table.row, table.text, table.pad):
        column.copy_(torch.randn(column.shape, generator=generator))
    table.controls.temperature.fill_(1.0)
    table.limit.fill_(20)
    table.live[:slots] = True
    table.closed[:] = True
    return table


@torch.no_grad()
@pytest.mark.parametrize("sampled", [True, False])
def test_a_fused_frame_in_c_does_what_the_operations_do(in_c: SpeechModel, sampled: bool) -> None:
    """Every state of a slot at once: fresh, starved, ended, at its limit, without an end; the spare one twice."""
    table = table_of(in_c, 9)
    controls = table.controls
    controls.seed.copy_(torch.arange(10) - 3)
    controls.temperature.fill_(0.9 * sampled)
    controls.predictor_temperature.fill_(1.1 * sampled)
    controls.top_k[::2], controls.top_p[::3], controls.predictor_top_k[1::2] = 5, 0.7, 4
    controls.predictor_top_p.fill_(1.0)
    controls.predictor_top_p[::4] = 0.6
    controls.penalty.fill_(1.4)
    controls.ignore_end[4] = True
    table.made[1], table.closed[1] = 3, False
    table.live[2] = False
    table.made[3], table.written[3] = 4, 6
    table.limit[5], table.repeats[6], table.reference[7] = 2, 2, 4
    table.row[8, 0] = float("nan")
    truth, cache = copy.deepcopy(table), in_c.talker.cache(10, 40)
    slots = torch.tensor([6, 3, 0, 1, 2, 4, 5, 7, 8, 9, 9])
    cached = copy.deepcopy(cache)
    step = fused_frame(in_c, table, cache, 3)
    assert step is not None
    for _ in range(8):
        step(slots)
        frame(in_c, truth, cached, slots, 40, 3)
    for slot in range(9):
        made = int(truth.made[slot] + truth.reference[slot])
        assert torch.equal(table.codes[slot, :made], truth.codes[slot, :made])
    for name in ("position", "report", "live", "seen", "last", "repeats", "limit", "written"):
        assert torch.equal(getattr(table, name)[:9], getattr(truth, name)[:9]), name
    torch.testing.assert_close(table.row[:8], truth.row[:8], rtol=1e-5, atol=1e-5)
    assert {Stop.RUNNING, Stop.LIMIT, Stop.BROKEN} <= {Stop(stop) for stop in table.stop.tolist()}
