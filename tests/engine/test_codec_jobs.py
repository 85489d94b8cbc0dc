"""CodecJobs: due frames are decoded, never more than exist, and results belong to the right request."""

import time
from dataclasses import replace

import numpy as np
import pytest
import tables
import torch
from engine_kit import PaddingDevice, plan_of

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.devices.workers import Workers
from omnitts_cli.engine.codec_jobs import END_RUNNING, FEW, MANY, MOST, NEWCOMERS, SOME, CodecJobs, few
from omnitts_cli.engine.slots import Record, SlotTable, State, StepContext, Stop
from omnitts_cli.models import networks
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


def padded(context: StepContext, **plan: int) -> CodecJobs:
    """Where batches are padded, with other values of the plan."""
    device = PaddingDevice(1)
    made = CodecJobs(replace(context, device=device, plan=replace(context.plan, **plan)), context.device.stream())
    made.clear(range(6))
    return made


def record(slot: int, made: int, **more: int) -> Record:
    return Record("x", Request("x"), State.RUNNING, slot=slot, limit=90, made=made, launched=made, **more)


def test_the_first_chunk_is_one_frame(jobs: CodecJobs, context: StepContext) -> None:
    slots = [record(0, 5), record(1, 0), record(2, 1)]
    assert jobs.launch(slots) and jobs.in_flight
    found = {one.record.slot: one for one in jobs.collect(wait=True)}
    assert sorted(found) == [0, 2] and not jobs.in_flight
    for index, one in found.items():
        assert (one.record, one.start, one.codes.shape[0]) == (slots[index], 0, 1)
        assert one.sound.shape == (context.model.facts.samples_per_frame,)
        assert np.array_equal(one.codes, context.table.codes[index, :1])
    assert [one.decoding for one in slots] == [1, 0, 1] and [one.jobs for one in slots] == [0, 0, 0]


@pytest.mark.parametrize(("precision", "halves"), [("q8", True), ("float32", False)])
def test_float16_storage_goes_with_a_model_in_8_bits(
    precision: str, halves: bool, context: StepContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, plain = list[bool](), networks.slot_decoder
    monkeypatch.setattr(networks, "slot_decoder", lambda *about: asked.append(about[4]) or plain(*about))
    monkeypatch.setattr(networks.Networks, "precision", precision)
    CodecJobs(context, context.device.stream())
    assert asked == [halves]


def test_a_decoder_with_threads_of_its_own_runs_between_the_frames(
    context: StepContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small one runs beside them; the sound is the same."""
    context = replace(context, model=replace(context.model, ops=tables.compiled()), device=CPUDevice(1, cores=2))
    decoded, ran, run = list[str](), list[object](), Workers.run
    monkeypatch.setattr(Workers, "run", lambda *given: ran.append(given) or run(*given))
    for small in (1000, 64 << 20):
        monkeypatch.setattr("omnitts_cli.kernels.cpu.networks.SMALL", small)
        monkeypatch.setattr("omnitts_cli.kernels.cpu.networks.threads", lambda: 2)
        jobs = CodecJobs(context, context.device.stream())
        jobs.clear(range(6))
        jobs.launch([record(0, 5)])
        assert bool(ran) == (small > 1000)
        (one,) = jobs.collect(wait=True)
        decoded.append(one.sound.tobytes().hex())
    assert decoded[0] == decoded[1]


def test_only_a_few_jobs_are_queued(jobs: CodecJobs) -> None:
    launched = [jobs.launch([record(index, 1)]) for index in range(MOST + 1)]
    assert launched == [True] * MOST + [False]


@pytest.mark.parametrize(
    ("speaking", "running", "found"), [(FEW, 4, 3), (FEW + 1, 3, 0), (FEW + 1, 2, 3), (SOME, 1, 3), (SOME + 1, 1, 0)]
)
def test_a_first_sound_is_waited_for_with_those_before_it_where_few_speak_or_run(
    jobs: CodecJobs, speaking: int, running: int, found: int
) -> None:
    """One newcomer. Two jobs of others are in front of it, and a fourth one behind; none has ended by itself."""
    others = [record(slot, 4, delivered=2, decoding=2) for slot in range(2)]
    for one in others:
        one.first_sound = time.perf_counter()
        jobs.launch([one])
    newcomer, later = record(2, 1), record(3, 4, delivered=2, decoding=2)
    later.first_sound = time.perf_counter()
    jobs.launch([newcomer])
    jobs.launch([later])
    on_an_accelerator(jobs)
    assert [one.record for one in jobs.collect(False, speaking, running)] == [*others, newcomer][:found]
    assert len(jobs.in_flight) == 4 - found


@pytest.mark.parametrize(("running", "waits"), [(MANY - 1, True), (MANY, False), (NEWCOMERS, True)])
def test_beside_many_the_next_frame_comes_before_a_first_sound_is_waited_for(
    jobs: CodecJobs, running: int, waits: bool
) -> None:
    newcomer = record(2, 1)
    jobs.launch([newcomer])
    on_an_accelerator(jobs)
    assert [one.record for one in jobs.collect(False, running + 1, running)] == [newcomer] * waits
    assert [one.record for one in jobs.collect(False, running + 1, running)] == [newcomer] * (not waits)


def test_ends_of_long_requests_wait_in_smaller_groups() -> None:
    """Of 64 that run, 14 end together after 50 frames each, 7 after 200; with few that run, none waits."""
    assert few([50] * 14, 64) and not few([50] * 15, 64)
    assert few([200] * 7, 64) and not few([200] * 8, 64)
    assert not few([50], END_RUNNING - 1)


def on_an_accelerator(jobs: CodecJobs) -> None:
    """No job has ended yet."""
    jobs._captures = True
    for job in jobs.in_flight:
        job.fetch.done = lambda: False  # type: ignore[method-assign]


@pytest.mark.parametrize(("speaking", "awaited", "collected"), [(2, False, 1), (3, False, 3), (2, True, 4)])
def test_newcomers_enter_before_all_ends_are_collected(
    jobs: CodecJobs, speaking: int, awaited: bool, collected: int
) -> None:
    """Where half of all have ended, unless a first sound is there as well."""
    ends = [record(slot, 4, delivered=2, decoding=2) for slot in range(3)]
    for one in ends:
        one.first_sound = time.perf_counter()
        jobs.launch([one])
    if awaited:
        jobs.launch([record(3, 1)])
    for job in jobs.in_flight:
        job.fetch.done = lambda: True  # type: ignore[method-assign]
    found = 0
    for decoded in jobs.collect(wait=False, speaking=speaking):
        decoded.record.state, found = State.DONE, found + 1
    assert found == collected


@pytest.mark.parametrize(("pads", "fills"), [(False, False), (True, False), (True, True)])
def test_a_chunk_waits_for_those_of_others_where_batches_are_padded(
    context: StepContext, pads: bool, fills: bool
) -> None:
    """Unless it fills a step alone."""
    whole = context.plan.chunks[-1]
    plan = replace(context.plan, sound_frames=whole) if fills else context.plan
    device = PaddingDevice(1) if pads else CPUDevice(1)
    made = CodecJobs(replace(context, device=device, plan=plan), context.device.stream())
    waits = pads and not fills
    early, late = (record(slot, 4 + whole - slot, decoding=4, delivered=4) for slot in range(2))
    early.first_sound = late.first_sound = time.perf_counter() + 60  # much sound in advance
    early.closed = late.closed = True
    assert made.launch([early, late], turn_s=0.01) is not waits
    for one in (early, late):
        one.made = one.launched = one.made + 1
    assert made.launch([early, late], turn_s=0.01)
    assert [len(job.rows) for job in made.in_flight] == ([2] if waits else [1, 1])


@pytest.mark.parametrize("fixed", [False, True])
def test_padding_at_the_end_makes_no_sound(context: StepContext, fixed: bool) -> None:
    """Seven frames in one step of eight, after which the end code stands; the sound is that of exact steps."""
    context.table.codes[0, 8:] = context.model.facts.end_code
    sounds = []
    for device in (CPUDevice(1), PaddingDevice(1)):
        made = CodecJobs(
            replace(context, device=device, plan=replace(context.plan, fixed_chunks=fixed)), device.stream()
        )
        made.clear([0])
        one, found = record(0, 8), []
        while one.decoding < 8:
            assert made.launch([one])
            found += made.collect(wait=True)
            one.first_sound, one.state, one.stop = 1.0, State.FINISHING, Stop.END
            one.delivered = one.decoding
        padded = device.pads and not fixed
        assert [part.codes.shape[0] for part in found] == ([1, 7] if padded else [1, 4, 2, 1])
        sounds.append(np.concatenate([part.sound for part in found]))
        assert np.array_equal(np.concatenate([part.codes for part in found]), context.table.codes[0, :8])
    np.testing.assert_allclose(sounds[1], sounds[0], rtol=0, atol=2e-5)


def test_nothing_due_nothing_launched(jobs: CodecJobs) -> None:
    assert not jobs.launch([])
    assert not jobs.launch([record(0, 0), record(1, 7, silent=True), record(2, 4, decoding=4)])
    assert list(jobs.collect(wait=True)) == []


def ending(slot: int, *, ended: float, pending: int = 5) -> Record:
    """Some frames are not yet decoded, and its player has seconds of sound."""
    one = record(slot, 60, decoding=60 - pending)
    one.delivered, one.first_sound, one.ended = one.decoding, time.perf_counter(), time.perf_counter() - ended
    one.state, one.stop = State.FINISHING, Stop.END
    return one


def running_beside(count: int = END_RUNNING) -> list[Record]:
    """Requests of which nothing is due."""
    beside = [record(5, 1, decoding=1) for _ in range(count)]
    for one in beside:
        one.closed = True
    return beside


def test_few_ends_wait_for_others(context: StepContext) -> None:
    """While enough requests run: for some of their own time, and not for more ends than the rule asks for."""
    jobs = padded(context)
    beside = running_beside()
    assert not jobs.launch([ending(0, ended=0.0), *beside], turn_s=0.01)
    assert jobs.launch([ending(0, ended=1.0), *beside], turn_s=0.01)
    assert jobs.launch([*(ending(slot, ended=0.0) for slot in range(3)), *beside], turn_s=0.01)
    assert jobs.launch([ending(0, ended=0.0), *beside[1:]], turn_s=0.01)


@pytest.mark.parametrize("late", [0, 1])
def test_ends_leave_in_one_call_when_one_of_them_can_wait_no_longer(context: StepContext, late: int) -> None:
    """Both are padded to the size of the larger one; the sound of each is that of its own frames."""
    jobs = padded(context)
    ends = [ending(slot, ended=slot == late, pending=pending) for slot, pending in enumerate((3, 7))]
    assert jobs.launch([*ends, *running_beside()], turn_s=0.01)
    (job,) = jobs.in_flight
    assert [(one.frames, one.size) for one, _ in job.rows] == [(3, 8), (7, 8)]
    for found, end in zip(jobs.collect(wait=True), ends, strict=True):
        assert found.record is end and len(found.codes) == 60 - found.start
        assert len(found.sound) == len(found.codes) * context.model.facts.samples_per_frame


def test_an_end_without_room_is_not_padded_for_others(context: StepContext) -> None:
    jobs = padded(context, frames=61)  # the slot ends one frame after the request
    assert jobs.launch([ending(0, ended=1.0, pending=3), ending(1, ended=1.0, pending=4)], turn_s=0.01)
    assert jobs.launch([ending(2, ended=1.0, pending=3), ending(3, ended=1.0, pending=7)], turn_s=0.01)
    assert [sorted(one.size for one, _ in job.rows) for job in jobs.in_flight] == [[4, 4], [4], [8]]


@pytest.mark.parametrize("newcomer", [False, True])
def test_while_an_end_waits_others_go_without_it(context: StepContext, newcomer: bool) -> None:
    """A first sound, and a chunk of the size of the end whose player has little sound."""
    jobs = padded(context)
    other = record(1, 1) if newcomer else record(1, 12, decoding=4)
    if not newcomer:
        other.delivered, other.closed, other.first_sound = 4, True, time.perf_counter() - 1
    assert jobs.launch([ending(0, ended=0.0), other, *running_beside()], turn_s=0.01)
    assert [[one.record for one, _ in job.rows] for job in jobs.in_flight] == [[other]]


@pytest.mark.parametrize(("running", "found"), [(END_RUNNING, [0, 1]), (END_RUNNING - 1, [0, 0])])
def test_an_end_is_waited_for_in_the_turn_after_its_launch(jobs: CodecJobs, running: int, found: list[int]) -> None:
    """Beside many: its slot is empty until then. Not in the turn itself, in which the next frame is not launched."""
    jobs._pads = True
    assert jobs.launch([ending(0, ended=1.0)])
    on_an_accelerator(jobs)
    assert [len(list(jobs.collect(False, running + 1, running))) for _ in range(2)] == found


def test_small_chunks_wait_unless_many_share_a_call(context: StepContext) -> None:
    jobs = padded(context)

    def second(lead_s: float) -> Record:
        one = record(0, 2, decoding=1)
        one.delivered, one.closed = 1, True
        one.first_sound = time.perf_counter() + lead_s - 1 / context.model.facts.frame_rate
        return one

    assert not jobs.launch([second(0.075)], turn_s=0.005)
    assert jobs.launch([second(0.02)], turn_s=0.005)
