"""CodecJobs: what is due is decoded, no more than has been made, and what comes back says whose it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.capture import Bench
from omnitts_cli.engine.codec_jobs import MOST, CodecJobs
from omnitts_cli.engine.plan import Plan
from omnitts_cli.engine.slots import Slot, SlotTable
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request


@pytest.fixture
def bench(model: SpeechModel, plan_of: Callable[..., Plan]) -> Bench:
    plan, device = plan_of(6), CPUDevice(1)
    table = SlotTable.empty(plan, model.facts, torch.device("cpu"), torch.float32)
    torch.manual_seed(0)
    table.codes.copy_(torch.randint(0, model.facts.codes, table.codes.shape))
    return Bench(model, device, plan, table, model.talker.cache(plan.slots + 1, plan.positions))


@pytest.fixture
def jobs(bench: Bench) -> CodecJobs:
    made = CodecJobs(bench, bench.device.stream())
    made.clear(range(6))
    return made


def slot(index: int, made: int, **more: int) -> Slot:
    asked = Slot(index, Request("x"), 0, limit=90, prompt_rows=3, reference=0, tokens=0)
    asked.made = asked.launched = made
    for name, value in more.items():
        setattr(asked, name, value)
    return asked


def test_the_first_chunk_is_one_frame_of_whoever_has_one(jobs: CodecJobs, bench: Bench) -> None:
    slots = [slot(0, 5), slot(1, 0), slot(2, 1)]
    assert jobs.launch(slots) and jobs.under_way
    found = {one.slot.index: one for one in jobs.collect(wait=True)}
    assert sorted(found) == [0, 2] and not jobs.under_way
    for index, one in found.items():
        assert (one.slot, one.start, one.codes.shape[0]) == (slots[index], 0, 1)
        assert one.sound.shape == (bench.model.facts.samples_per_frame,)
        assert np.array_equal(one.codes, bench.table.codes[index, :1])
    assert [one.decoding for one in slots] == [1, 0, 1] and [one.jobs for one in slots] == [0, 0, 0]


def test_chunk_after_chunk_is_the_whole(jobs: CodecJobs, bench: Bench) -> None:
    (asked,), sound = [slot(3, 11)], []
    while jobs.launch([asked]):
        for one in jobs.collect(wait=True):
            assert one.start == asked.delivered
            asked.delivered += one.codes.shape[0]
            asked.first_sound = asked.first_sound or 1.0
            sound.append(one.sound)
    whole = bench.model.codec(bench.table.codes[3:4, :11])[0].numpy()
    assert asked.delivered == 11
    assert np.abs(np.concatenate(sound) - whole).max() < 1e-5


def test_nobody_queues_behind_more_than_a_few(jobs: CodecJobs) -> None:
    launched = [jobs.launch([slot(index, 1)]) for index in range(MOST + 1)]
    assert launched == [True] * MOST + [False]


def test_nothing_due_nothing_launched(jobs: CodecJobs) -> None:
    assert not jobs.launch([])
    assert not jobs.launch([slot(0, 0), slot(1, 7, silent=True), slot(2, 4, decoding=4)])
    assert list(jobs.collect(wait=True)) == []
