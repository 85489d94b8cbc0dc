"""CodecJobs: what is due is decoded, no more than has been made, and what comes back says whose it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_kit import plan_of

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.codec_jobs import MOST, CodecJobs
from omnitts_cli.engine.frame import StepContext
from omnitts_cli.engine.meter import RequestMeter
from omnitts_cli.engine.slots import Record, SlotTable, State
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request


@pytest.fixture
def context(model: SpeechModel) -> StepContext:
    plan, device = plan_of(6), CPUDevice(1)
    table = SlotTable.empty(plan, model.facts, torch.device("cpu"), torch.float32)
    torch.manual_seed(0)
    table.codes.copy_(torch.randint(0, model.facts.codes, table.codes.shape))
    return StepContext(model, device, plan, table, model.talker.cache(plan.slots + 1, plan.positions))


@pytest.fixture
def jobs(context: StepContext) -> CodecJobs:
    made = CodecJobs(context, context.device.stream())
    made.clear(range(6))
    return made


def record(slot: int, made: int, **more: int) -> Record:
    meter = RequestMeter(8000, 0.0)
    return Record("x", Request("x"), meter, State.RUNNING, slot=slot, limit=90, made=made, launched=made, **more)


def test_the_first_chunk_is_one_frame_of_whoever_has_one(jobs: CodecJobs, context: StepContext) -> None:
    slots = [record(0, 5), record(1, 0), record(2, 1)]
    assert jobs.launch(slots) and jobs.in_flight
    found = {one.record.slot: one for one in jobs.collect(wait=True)}
    assert sorted(found) == [0, 2] and not jobs.in_flight
    for index, one in found.items():
        assert (one.record, one.start, one.codes.shape[0]) == (slots[index], 0, 1)
        assert one.sound.shape == (context.model.facts.samples_per_frame,)
        assert np.array_equal(one.codes, context.table.codes[index, :1])
    assert [one.decoding for one in slots] == [1, 0, 1] and [one.jobs for one in slots] == [0, 0, 0]


def test_nobody_queues_behind_more_than_a_few(jobs: CodecJobs) -> None:
    launched = [jobs.launch([record(index, 1)]) for index in range(MOST + 1)]
    assert launched == [True] * MOST + [False]


def test_nothing_due_nothing_launched(jobs: CodecJobs) -> None:
    assert not jobs.launch([])
    assert not jobs.launch([record(0, 0), record(1, 7, silent=True), record(2, 4, decoding=4)])
    assert list(jobs.collect(wait=True)) == []
