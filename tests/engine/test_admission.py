"""Admission to a slot: limits, columns, prefixes, and a text ring on which host and device agree."""

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine_kit import engine_of, requests_of, to_the_end
from hypothesis import given, settings
from hypothesis import strategies as st

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.admission import FairQueue, runaway_limit, settled, top_up
from omnitts_cli.engine.engine import Engine
from omnitts_cli.engine.slots import Plan, Record, SlotTable, State, StepContext
from omnitts_cli.kernels import plain_frame
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import BULK, COLDEST, FIRST_SOUND, STREAMING, Failed, Request, Sampling


def test_the_runaway_limit_is_well_above_the_slowest_speech() -> None:
    assert runaway_limit(0) == 100 and runaway_limit(10) - runaway_limit(9) == 12


def queued(*entries: tuple[str, int, str]) -> tuple[FairQueue, dict[str, Record]]:
    queue, records = FairQueue(), {}
    for name, priority, client in entries:
        records[name] = Record(name, Request(""), priority=priority, client=client)
        queue.push(records[name])
    return queue, records


def order(queue: FairQueue) -> str:
    return "".join(queue.pop().id for _ in range(len(queue)))


def test_who_has_no_sound_yet_goes_first() -> None:
    queue, _ = queued(("a", BULK, ""), ("b", STREAMING, ""), ("c", FIRST_SOUND, ""), ("d", FIRST_SOUND, ""))
    assert order(queue) == "cdba"


def test_clients_take_turns_and_each_keeps_its_order() -> None:
    many = [(name, BULK, "one") for name in "abcd"]
    queue, _ = queued(*many, ("x", BULK, "two"), ("y", BULK, "two"), ("z", BULK, "three"))
    assert order(queue) == "axzbycd"


def test_a_removed_request_is_not_served() -> None:
    queue, records = queued(("a", BULK, "one"), ("b", BULK, "one"), ("c", STREAMING, "two"))
    for name in "cac":  # the second time it is no longer there
        queue.remove(records[name])
    assert len(queue) == 1 and order(queue) == "b"


def test_short_pieces_wait_for_frames_while_someone_listens_to_another_text() -> None:
    queue, listened = FairQueue(), {1, 2}
    for name, script, priority in [("a", 2, STREAMING), ("b", 2, STREAMING), ("c", 3, BULK), ("d", 1, STREAMING)]:
        queue.push(Record(name, Request("", script=script), priority=priority))
    assert queue.pop(listened).id == "a"
    queue.owe(2, 20)
    assert queue.pop(listened).id == "d"  # another text has not had its turn
    queue.owe(3, 30)
    assert queue.pop(listened) is None
    queue.pay(19)
    assert queue.pop(listened) is None and len(queue) == 2
    queue.push(Record("e", Request("", script=2), priority=FIRST_SOUND))
    assert queue.pop(listened).id == "e"  # a first sound never waits
    queue.pay(1)
    assert queue.pop(listened).id == "b" and queue.pop(listened) is None
    assert queue.pop().id == "c" and queue.pop() is None  # no one listens any more


def turns_of_short_pieces(listener: int | None) -> int:
    """The turns until six pieces of text 2 are spoken, of one frame each: beside a listener to a text, or alone."""
    engine = engine_of(8)
    if listener is not None:
        request = Request("Hello.", id="listener", script=listener, max_frames=60, ignore_end=True)
        engine.submit(request, priority=STREAMING)
        while not engine.step():
            pass
    names = {str(index) for index in range(6)}
    for name in names:
        engine.submit(Request("one two three", id=name, script=2, max_frames=1), priority=STREAMING)
    turns = 0
    while names:
        names -= {news.request for news in engine.step() if isinstance(news, Failed) or news.last}
        turns += 1
    engine.cancel("listener")
    to_the_end(engine)
    return turns


def test_a_text_of_short_pieces_leaves_the_engine_to_other_listeners() -> None:
    alone, same, other = map(turns_of_short_pieces, (None, 2, 1))
    assert max(alone, same) < 12 < 24 < other


@pytest.mark.parametrize(
    ("script", "priority", "expected"),
    [(2, STREAMING, [1, 2, 3]), (2, BULK, [3, 3, 3]), (0, STREAMING, [3, 3, 3])],  # 0: of texts that are not known
)
def test_pieces_of_a_text_begin_one_by_one_while_someone_listens_to_it(
    script: int, priority: int, expected: list[int]
) -> None:
    engine = engine_of(4)
    for _ in range(3):
        engine.submit(Request("Hello.", script=script, max_frames=30, ignore_end=True), priority=priority)
    running = []
    for _ in range(3):
        engine.step()
        running.append(len(engine.snapshot().by_state(State.RUNNING)))
    assert running == expected


def test_who_waits_for_the_last_sound_still_listens() -> None:
    record = Record("a", Request("Hello."), state=State.FINISHING)
    assert record.wanted
    record.state = State.RUNNING
    assert record.wanted
    record.paused = True
    assert not record.wanted  # nothing is made for it until it goes on
    record.paused, record.launched, record.closed = False, 1, False
    assert not record.wanted  # it waits for text


def test_free_slots_are_given_in_the_order_of_the_queue() -> None:
    """Whatever came first; a live request without words is not in the queue and holds nothing up."""
    engine = engine_of(1)
    engine.submit(Request("", id="live", max_frames=2), live=True, priority=FIRST_SOUND)
    for name, priority, client in [("a", BULK, "one"), ("b", BULK, "one"), ("c", BULK, "two"), ("d", STREAMING, "one")]:
        engine.submit(Request("Hello.", id=name, max_frames=2), priority=priority, client=client)
    ended: list[str] = []
    while len(ended) < 4:
        ended += [news.request for news in engine.step() if news.last]  # type: ignore[union-attr]
    assert ended == ["d", "a", "c", "b"] and engine.queued == 0 and not engine.admitted
    engine.feed("live", "Words, at last.")
    engine.finish("live")
    while "live" not in ended:
        ended += [news.request for news in engine.step() if news.last]  # type: ignore[union-attr]


def holds(engine: Engine, slot: int, request: Request) -> None:
    """The slot's columns, a frame after it was opened, are what was asked."""
    columns = engine.columns(slot)
    for name, wanted in vars(settled(request.sampling, engine.model.sampling)).items():
        assert columns[name.removeprefix("repetition_")] == np.float32(wanted)
    assert (columns["seed"], columns["ignore_end"]) == (request.seed, request.ignore_end)
    assert columns["limit"] == request.max_frames and columns["made"] == 1 and columns["seen"].sum() == 1
    reference = getattr(request.voice, "codes", None)
    assert columns["reference"] == (0 if reference is None else len(reference))
    if reference is not None:
        assert np.array_equal(columns["codes"][: len(reference)], reference)


def asked(number: int) -> Request:
    (request,) = requests_of(1, start=number, seed=-(5 + number), ignore_end=number == 3, max_frames=9 + number)
    return request


def test_columns_say_what_was_asked() -> None:
    """Each column, also if the previous request of the slot had another value."""
    engine = engine_of(1)
    for number in (3, 1, 0):
        request = asked(number)
        engine.submit(request)
        engine.step()
        holds(engine, 0, request)
        to_the_end(engine)


def test_a_slot_that_is_free_again_is_not_live() -> None:
    """Whether its request ended by itself or was cancelled."""
    engine = engine_of(1)
    engine.submit(asked(0))
    engine.step()
    assert engine.columns(0)["live"]
    to_the_end(engine)
    assert not engine.columns(0)["live"]
    name = engine.submit(asked(1))
    engine.step()
    assert engine.columns(0)["live"]
    engine.cancel(name)
    engine.step()
    assert not engine.columns(0)["live"]


def test_requests_admitted_in_one_turn_have_columns_of_their_own() -> None:
    engine = engine_of(4, admissions=4)
    numbers = {engine.submit(asked(number)): number for number in (3, 1, 0)}
    engine.step()
    slots = {engine.snapshot().requests[name].slot: number for name, number in numbers.items()}
    assert len(slots) == 3
    for slot, number in slots.items():
        holds(engine, slot, asked(number))
    assert not engine.columns(3)["live"]


def test_a_short_prompt_takes_no_more_of_a_prefix_than_there_is(model: SpeechModel) -> None:
    """Should two prompts of one key ever share different numbers of rows, the smaller number is copied."""
    engine = engine_of(1)
    (request,) = requests_of(1)
    alone = engine.clip(request)
    prompt = model.prompter.prompt(request)
    engine._admission._prompter = replace_shared(model, prompt.draft.shared + 2)
    again = engine.clip(request)
    assert np.array_equal(alone.codes, again.codes)


def replace_shared(model: SpeechModel, shared: int) -> Any:
    class Prompter:
        def draft(self, request: Request) -> Any:
            return replace(model.prompter.draft(request), shared=shared)

        def prompts(self, drafts: Any) -> Any:
            return model.prompter.prompts(drafts)

    return Prompter()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), ring=st.integers(1, 6))
def test_host_and_device_agree_about_the_ring(model: SpeechModel, data: st.DataObject, ring: int) -> None:
    """Frame k + 1 reads row k, whenever it is sent; the host never launches a frame that would have to wait."""
    plan = Plan.of(1, 10, 12.5, text_rows=ring)
    table = SlotTable.empty(plan, model.facts, torch.device("cpu"), torch.float32)
    table.live[0] = True
    device = CPUDevice(1)
    context = StepContext(model, device, plan, table, model.talker.cache(2, 8))
    record = Record("x", Request("x"), State.RUNNING, slot=0, limit=1000, closing=False)
    count, sent = data.draw(st.integers(0, 25), label="rows"), 0
    rows = torch.arange(1.0, count + 1)[:, None].expand(-1, model.facts.hidden)
    heard: deque[float] = deque()
    index = torch.tensor([0])
    for _ in range(400):
        if sent < count and data.draw(st.integers(0, 3), label="send") == 0:
            piece = data.draw(st.integers(1, count - sent), label="piece")
            record.unsent.append(rows[sent : sent + piece])
            sent += piece
            top_up(context, record)
        elif sent == count and not record.closing:
            record.closing = True
            top_up(context, record)
        if record.launched > count + 3:
            break
        if record.runnable:
            table.made[0] = record.launched
            row, _, _, may = plain_frame.begin(table, index)
            assert may.all(), "launched, but the device would wait"
            heard.append(float(row[0, 0]))
            record.launched += 1
            top_up(context, record)
        else:
            assert record.starved and not record.unsent, "text is there, but the slot starves"
    assert list(heard) == [0.0, *range(1, count + 1), *[0.0] * 3][: len(heard)] and record.launched > count + 3
    assert record.closed and table.closed[0]


@pytest.mark.parametrize("slots", [1, 3])
def test_a_burst_enters_over_several_turns(slots: int) -> None:
    """No more prompts are built between two frames than the plan says, and frames go on meanwhile."""
    engine = engine_of(9, admissions=slots)
    for request in requests_of(9, max_frames=30, ignore_end=True):
        engine.submit(request)
    running = []
    for _ in range(9):
        engine.step()
        running.append(len(engine.snapshot().by_state(State.RUNNING, State.FINISHING)))
    assert running == [min(9, slots * (turn + 1)) for turn in range(9)]
    assert engine.frames_launched == 9


def test_a_burst_enters_at_once_while_no_request_runs() -> None:
    """In groups, so that the device has work while the next prompts are drafted. Later ones enter as ever."""
    engine = engine_of(40, admissions=4, burst=36)
    advance, groups = engine._admission.advance, []
    engine._admission.advance = lambda records: groups.append(len(records)) or advance(records)
    for request in requests_of(40, max_frames=30, ignore_end=True):
        engine.submit(request)
    running = []
    for _ in range(2):
        engine.step()
        running.append(len(engine.snapshot().by_state(State.RUNNING)))
    assert running == [36, 40]
    assert groups == [16, 16, 4, 4]


def test_engines_of_one_model_share_no_rows() -> None:
    """What a prompter remembers lies in its engine's stream, and streams of two engines do not wait for each other."""
    one, other = (engine_of(1)._admission._prompter for _ in range(2))
    assert one._known is not other._known


MODEL = Sampling(0.9, 50, 1.0, 1.05, 0.8, 40, 0.9)


def test_what_is_not_said_is_the_models_own() -> None:
    assert settled(Sampling(), MODEL) == MODEL
    assert settled(Sampling(top_k=0, predictor_top_p=0.5), MODEL) == Sampling(0.9, 0, 1.0, 1.05, 0.8, 40, 0.5)


@pytest.mark.parametrize("next_to_nothing", [1e-45, 1e-38, COLDEST / 2])
def test_a_temperature_close_to_zero_is_greedy_and_the_coldest_is_not(next_to_nothing: float) -> None:
    cold = Sampling(temperature=next_to_nothing, predictor_temperature=next_to_nothing)
    for spoken in (settled(cold, MODEL), settled(Sampling(), cold)):
        assert spoken.temperature == spoken.predictor_temperature == 0.0
    assert settled(Sampling(temperature=COLDEST), MODEL).temperature == COLDEST
