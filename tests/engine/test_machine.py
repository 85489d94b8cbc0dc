"""Anything in any order: a state machine over the real engine and the toy model.

After each step no slot is lost and each request has at most one end; when all is over, every request
has spoken what it speaks alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from omnitts_cli.audio.chunk import Clip
from omnitts_cli.engine.engine import Engine, News
from omnitts_cli.request import Failed, Request
from omnitts_cli.voices import Named

LEAST_STEPS = 2000
MOST = 8  # requests of one run
PIECES = ("one ", "two", " three, ", "si", "x ", " ", "", "seven eight nine ten ")


@dataclass
class Talk:
    """A request and what has been done to it."""

    request: Request
    text: str = ""
    open: bool = False
    cancelled: bool = False
    bad: bool = False


@dataclass
class Kit:
    """What the machine is made of; pytest's fixtures do not reach into it."""

    engine_of: Callable[..., Engine]
    requests_of: Callable[..., list[Request]]
    solo: Callable[[Request], Clip]
    same: Callable[..., None]
    join: Callable[..., dict[str, Any]]
    rested: Callable[[Engine], None]
    recording: ModuleType
    late: Engine | None = None  # with captured steps and streams that lag; kept while it comes to rest
    steps: int = 0

    def late_engine(self, seed: int) -> Engine:
        engine, self.late = self.late, None
        if engine is None:
            device = self.recording.RecordingDevice(late=True)
            few = {"chunks": (1, 2, 4), "prefill_rows": (4, 16), "admissions": 2}
            engine = self.engine_of(3, device=device, text_rows=2, first_chunk=2, prefixes=2, ahead=3, **few)
        engine.device.deal_again(seed)
        return engine


class Machine(RuleBasedStateMachine):
    kit: Kit
    talks = Bundle("talks")

    @initialize(
        slots=st.integers(1, 4),
        ring=st.sampled_from([1, 2, 256]),
        first=st.sampled_from([1, 1, 2, 3]),
        run=st.sampled_from([3, 64]),
        late=st.booleans(),
        seed=st.integers(0, 99),
    )
    def start(self, slots: int, ring: int, first: int, run: int, late: bool, seed: int) -> None:
        plan = {"text_rows": ring, "first_chunk": first, "prefill_rows": (run,), "prefixes": 2, "admissions": 2}
        self.engine = self.kit.late_engine(seed) if late else self.kit.engine_of(slots, **plan)
        self.late = late
        self.news: list[News] = []
        self.spoken: dict[str, Talk] = {}

    def _begin(self, talk: Talk, live: bool) -> Talk:
        talk.request = replace(talk.request, id=f"t{len(self.spoken)}")
        self.engine.submit(talk.request, live=live)
        self.spoken[talk.request.id] = talk
        return talk

    @precondition(lambda self: len(self.spoken) < MOST)
    @rule(target=talks, number=st.integers(0, 6), frames=st.sampled_from([1, 5, 14]))
    def submit(self, number: int, frames: int) -> Talk:
        (request,) = self.kit.requests_of(1, start=number, max_frames=frames)
        return self._begin(Talk(request), live=False)

    @precondition(lambda self: len(self.spoken) < MOST)
    @rule(target=talks)
    def submit_nonsense(self) -> Talk:
        (request,) = self.kit.requests_of(1, voice=Named("nobody"))
        return self._begin(Talk(request, bad=True), live=False)

    @precondition(lambda self: len(self.spoken) < MOST)
    @rule(target=talks, number=st.sampled_from([0, 1, 2, 4]), text=st.sampled_from(PIECES))
    def submit_live(self, number: int, text: str) -> Talk:
        (request,) = self.kit.requests_of(1, start=number, text=text, text_mode="streamed", max_frames=12)
        return self._begin(Talk(request, text=text, open=True), live=True)

    @rule(talk=talks, text=st.sampled_from(PIECES))
    def feed(self, talk: Talk, text: str) -> None:
        self.engine.feed(talk.request.id, text)
        if talk.open:
            talk.text += text

    @rule(talk=talks)
    def finish(self, talk: Talk) -> None:
        self.engine.finish(talk.request.id)
        talk.open = False

    @rule(talk=talks)
    def cancel(self, talk: Talk) -> None:
        self.engine.cancel(talk.request.id)
        talk.cancelled, talk.open = True, False

    @rule(talk=talks)
    def pause(self, talk: Talk) -> None:
        self.engine.pause(talk.request.id)

    @rule(talk=talks)
    def resume(self, talk: Talk) -> None:
        self.engine.resume(talk.request.id)

    @property
    def _turns(self) -> bool:
        """Whether a step would not sleep for ever."""
        return self.engine.busy and bool(self.engine._inbox or not self.engine._idle)

    @rule(count=st.integers(1, 6))
    def step(self, count: int) -> None:
        for _ in range(count):
            if self._turns:
                self._step()

    def _step(self) -> None:
        engine = self.engine
        ready = [slot for _, slot in engine._slots() if slot.runnable] if not engine._inbox else []
        before = engine.frames_launched
        self.news += engine.step()
        assert engine.frames_launched > before or not ready, "a turn without a frame while work was waiting"

    @invariant()
    def counted(self) -> None:
        self.kit.steps += 1

    @invariant()
    def no_slot_is_lost(self) -> None:
        engine = self.engine
        opening = [o.slot.index for ticket, o in engine._opening if ticket.slot is o.slot]
        assert sorted([*engine._free, *engine._running, *opening]) == list(range(engine.plan.slots))
        for index, ticket in engine._running.items():
            slot = ticket.slot
            assert slot is not None and slot.index == index and engine._tickets[ticket.id] is ticket
            assert slot.made <= slot.launched <= slot.limit
            assert slot.delivered <= slot.decoding <= slot.reference + max(slot.made, min(2, slot.launched))
            assert (
                0 <= slot.written - max(slot.launched - 1, 0) <= engine.plan.text_rows or slot.launched > slot.written
            )
        over = [one.request for one in self.news if isinstance(one, Failed) or one.last]
        assert len(over) == len(set(over)) and not set(over) & engine._tickets.keys()

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        for name in self.spoken:
            self.engine.resume(name)
            self.engine.finish(name)
        left = 3000
        while self.engine.busy:
            assert self._turns, "the engine sleeps with work to do"
            self._step()
            left -= 1
            assert left, "the engine turns and turns"
        self.kit.rested(self.engine)
        over = self.kit.join(self.news)
        assert over.keys() == self.spoken.keys()
        for name, talk in self.spoken.items():
            self._compare(talk, over[name])
        if self.late:
            self.kit.late = self.engine

    def _compare(self, talk: Talk, result: Any) -> None:
        live = talk.request.text_mode == "streamed" and talk.request.max_frames == 12
        text = talk.text if live else talk.request.text
        if isinstance(result, Failed):
            assert talk.bad or not text.strip(), result.error
            return
        if talk.bad or not text.strip():
            assert result.stopped == "cancelled" and not len(result.codes)
            return
        alone = self.kit.solo(replace(talk.request, text=text))
        if result.stopped == "cancelled":
            assert talk.cancelled
            if len(result.codes):
                np.testing.assert_array_equal(result.codes, alone.codes[: len(result.codes)])
        else:
            self.kit.same(alone, result)


def run(kit: Kit, examples: int, steps: int) -> None:
    Machine.kit = kit
    checks = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=checks)


def test_anything_in_any_order(
    engine_of: Callable[..., Engine],
    requests_of: Callable[..., list[Request]],
    solo: Callable[[Request], Clip],
    same: Callable[..., None],
    join: Callable[..., dict[str, Any]],
    rested: Callable[[Engine], None],
    recording: ModuleType,
) -> None:
    kit = Kit(engine_of, requests_of, solo, same, join, rested, recording)
    while kit.steps < LEAST_STEPS:  # how long the drawn histories are is up to chance
        run(kit, examples=50, steps=50)
    assert kit.steps >= LEAST_STEPS
