"""One frame of many slots: which row each slot reads, which may move, why one stops."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from omnitts_cli.engine.slots import Plan, SlotTable, Stop
from omnitts_cli.models.networks import frame, fused_frame
from omnitts_cli.models.roles import SpeechModel

RING = 4


def table_of(model: SpeechModel, slots: int = 3) -> SlotTable:
    plan = Plan.of(slots, 2, 12.5, text_rows=RING)
    table = SlotTable.empty(plan, model.facts, torch.device("cpu"), torch.float32)
    generator = torch.Generator().manual_seed(0)
    for column in (table.row, table.text, table.pad):
        column.copy_(torch.randn(column.shape, generator=generator))
    table.controls.temperature.fill_(1.0)
    table.limit.fill_(20)
    table.live[:slots] = True
    table.closed[:] = True
    return table


def test_text_row_k_is_added_after_frame_k(model: SpeechModel) -> None:
    """The first frame reads none, then one row each from the ring, then pad; an open, empty feed waits."""
    table = table_of(model, 1)
    slot = torch.tensor([0])
    for made in range(9):
        for written, closed in ((6, False), (6, True)):
            table.written[0], table.closed[0] = written, closed
            table.made[0] = made
            rows, _, _, may = model.ops.begin(table, slot)
            if made == 0:
                fed, moves = torch.zeros_like(table.pad[0]), True
            elif made <= written:
                fed, moves = table.text[0, (made - 1) % RING], True
            else:
                fed, moves = table.pad[0], closed
            torch.testing.assert_close(rows[0], table.row[0] + fed)
            assert bool(may[0]) == moves


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


def columns(table: SlotTable, slot: int) -> dict[str, torch.Tensor]:
    names = ("row", "position", "live", "reference", "seen", "last", "repeats", "written", "made", "stop")
    return {name: getattr(table, name)[slot].clone() for name in names}


@torch.no_grad()
def test_rows_that_may_not_move_change_nothing(model: SpeechModel) -> None:
    """Starved, ended and spare rows are computed too; their columns stay, except codes from `made` on."""
    table = table_of(model)
    cache = model.talker.cache(4, 40)
    table.made[1], table.closed[1] = 3, False  # starved
    table.live[2] = False  # ended
    table.made[2] = 5
    kept = table.codes.clone()
    before = [columns(table, slot) for slot in range(4)]
    frame(model, table, cache, torch.tensor([0, 1, 2, 3, 3]), 40, 50)
    for slot in (1, 2, 3):
        after = columns(table, slot)
        assert all(torch.equal(before[slot][name], after[name]) for name in after), slot
        assert torch.equal(table.codes[slot, : before[slot]["made"]], kept[slot, : before[slot]["made"]])
    assert table.made[0] == 1 and table.position[0] == 1 and table.seen[0].sum() == 1
    torch.testing.assert_close(table.row[0], model.embedder.frame(table.codes[0, 0]))


@torch.no_grad()
def test_codes_of_a_reference_stay_in_front(model: SpeechModel) -> None:
    table = table_of(model)
    cache = model.talker.cache(4, 40)
    table.reference[1] = 5
    table.codes[1, :5] = 7
    for _ in range(3):
        frame(model, table, cache, torch.tensor([0, 1]), 40, 50)
    assert (table.codes[1, :5] == 7).all() and table.made[1] == 3
    assert not table.seen[1].all() and table.seen[1].sum() <= 3  # the reference does not count as seen


@torch.no_grad()
def test_a_broken_row_stops_and_its_neighbour_does_not(model: SpeechModel) -> None:
    table = table_of(model)
    table.row[0, 0] = float("nan")
    alone = table_of(model)
    frame(model, table, model.talker.cache(4, 40), torch.tensor([0, 1]), 40, 50)
    frame(model, alone, model.talker.cache(4, 40), torch.tensor([1]), 40, 50)
    assert Stop(int(table.stop[0])) is Stop.BROKEN and not table.live[0] and table.made[0] == 0
    assert table.live[1] and torch.equal(table.codes[1], alone.codes[1])
    torch.testing.assert_close(table.row[1], alone.row[1])


@torch.no_grad()
def test_an_ended_row_makes_no_frame(model: SpeechModel) -> None:
    class Ends(type(model.talker)):
        def logits(self, hidden: torch.Tensor) -> torch.Tensor:
            out = torch.zeros(*hidden.shape[:-1], model.facts.vocabulary)
            out[..., model.facts.end_code] = 50.0
            return out

    talker = copy.copy(model.talker)
    talker.__class__ = Ends
    ending, table = replace(model, talker=talker), table_of(model)
    cache = model.talker.cache(4, 40)
    seen = []
    for _ in range(4):
        frame(ending, table, cache, torch.tensor([0]), 40, 50)
        seen.append((int(table.made[0]), Stop(int(table.stop[0])), bool(table.live[0]), int(table.position[0])))
    assert seen == [
        (1, Stop.RUNNING, True, 1),
        (2, Stop.RUNNING, True, 2),
        (2, Stop.END, False, 2),
        (2, Stop.END, False, 2),  # a surplus frame changes nothing
    ]
