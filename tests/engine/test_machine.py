"""Random operations in any order: a state machine over the real engine and the toy model.

After each step no slot is lost and each request has at most one end; when all is over, every request
has spoken what it speaks alone.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from engine_kit import engine_of, join, requests_of, rested, same, solo
from hypothesis import HealthCheck, Phase, settings, stateful
from hypothesis import strategies as st
from recording_device import RecordingDevice

from omnitts_cli.engine.engine import Engine, News
from omnitts_cli.engine.slots import State
from omnitts_cli.request import Failed, Request
from omnitts_cli.voices import Named

LEAST_STEPS = 300
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


late_engine: Engine | None = None
"""With captured steps and streams that lag; kept while it comes to rest, as recording it takes long."""

steps = 0


def engine_that_lags(seed: int) -> Engine:
    global late_engine
    engine, late_engine = late_engine, None
    if engine is None:
        few = {"chunks": (1, 2, 4), "prefill_rows": (4, 16), "admissions": 2}
        device = RecordingDevice(late=True)
        engine = engine_of(3, device=device, text_rows=2, first_chunk=2, prefixes=2, ahead=3, **few)
    engine.device.deal_again(seed)
    return engine


class Machine(stateful.RuleBasedStateMachine):
    talks = stateful.Bundle("talks")

    @stateful.initialize(
        slots=st.integers(1, 4), ring=st.sampled_from([1, 2, 256]), first=st.sampled_from([1, 1, 2, 3]),
        run=st.sampled_from([3, 64]), late=st.booleans(), seed=st.integers(0, 99),
    )  # fmt: skip
    def start(self, slots: int, ring: int, first: int, run: int, late: bool, seed: int) -> None:
        plan = {"text_rows": ring, "first_chunk": first, "prefill_rows": (run,), "prefixes": 2, "admissions": 2}
        self.engine = engine_that_lags(seed) if late else engine_of(slots, **plan)
        self.late = late
        self.news: list[News] = []
        self.spoken: dict[str, Talk] = {}

    def _begin(self, talk: Talk, live: bool) -> Talk:
        talk.request = replace(talk.request, id=f"t{len(self.spoken)}")
        self.engine.submit(talk.request, live=live)
        self.spoken[talk.request.id] = talk
        return talk

    @stateful.precondition(lambda self: len(self.spoken) < MOST)
    @stateful.rule(target=talks, number=st.integers(0, 6), frames=st.sampled_from([1, 5, 14]))
    def submit(self, number: int, frames: int) -> Talk:
        (request,) = requests_of(1, start=number, max_frames=frames)
        return self._begin(Talk(request), live=False)

    @stateful.precondition(lambda self: len(self.spoken) < MOST)
    @stateful.rule(target=talks)
    def submit_nonsense(self) -> Talk:
        (request,) = requests_of(1, voice=Named("nobody"))
        return self._begin(Talk(request, bad=True), live=False)

    @stateful.precondition(lambda self: len(self.spoken) < MOST)
    @stateful.rule(target=talks, number=st.sampled_from([0, 1, 2, 4]), text=st.sampled_from(PIECES))
    def submit_live(self, number: int, text: str) -> Talk:
        (request,) = requests_of(1, start=number, text=text, text_mode="streamed", max_frames=12)
        return self._begin(Talk(request, text=text, open=True), live=True)

    @stateful.rule(talk=talks, text=st.sampled_from(PIECES))
    def feed(self, talk: Talk, text: str) -> None:
        self.engine.feed(talk.request.id, text)
        if talk.open:
            talk.text += text

    @stateful.rule(talk=talks)
    def finish(self, talk: Talk) -> None:
        self.engine.finish(talk.request.id)
        talk.open = False

    @stateful.rule(talk=talks)
    def cancel(self, talk: Talk) -> None:
        self.engine.cancel(talk.request.id)
        talk.cancelled, talk.open = True, False

    @stateful.rule(talk=talks)
    def pause(self, talk: Talk) -> None:
        self.engine.pause(talk.request.id)

    @stateful.rule(talk=talks)
    def resume(self, talk: Talk) -> None:
        self.engine.resume(talk.request.id)

    @stateful.rule(count=st.integers(1, 6))
    def step(self, count: int) -> None:
        for _ in range(count):
            if self.engine.busy and not self.engine.snapshot().sleeps:
                self._step()

    def _step(self) -> None:
        before = self.engine.snapshot()
        ready = not before.calls and any(one.runnable for one in before.requests.values())
        frames = self.engine.frames_launched
        self.news += self.engine.step()
        assert self.engine.frames_launched > frames or not ready, "a turn without a frame while work was waiting"

    @stateful.invariant()
    def counted(self) -> None:
        global steps  # noqa: PLW0603
        steps += 1

    @stateful.invariant()
    def no_slot_is_lost(self) -> None:
        snapshot, plan = self.engine.snapshot(), self.engine.plan
        taken = [one.slot for one in snapshot.requests.values() if one.state is not State.WAITING]
        assert sorted([*snapshot.free, *taken]) == list(range(plan.slots))
        for one in snapshot.requests.values():
            assert (one.slot < 0) == (one.state is State.WAITING) and one.state is not State.DONE
            if one.state in (State.WAITING, State.OPENING):
                continue
            assert one.made <= one.launched <= one.limit
            assert one.delivered <= one.decoding <= one.reference + max(one.made, min(2, one.launched))
            ahead = one.written - max(one.launched - 1, 0)
            assert 0 <= ahead <= plan.text_rows or one.launched > one.written
        over = [one.request for one in self.news if isinstance(one, Failed) or one.last]
        assert len(over) == len(set(over)) and not set(over) & snapshot.requests.keys()

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        for name in self.spoken:
            self.engine.resume(name)
            self.engine.finish(name)
        left = 3000
        while self.engine.busy:
            assert not self.engine.snapshot().sleeps, "the engine sleeps with work to do"
            self._step()
            left -= 1
            assert left, "the engine turns and turns"
        rested(self.engine)
        over = join(self.news)
        assert over.keys() == self.spoken.keys()
        for name, talk in self.spoken.items():
            self._compare(talk, over[name])
        if self.late:
            global late_engine  # noqa: PLW0603
            late_engine = self.engine

    def _compare(self, talk: Talk, result: Any) -> None:
        live = talk.request.text_mode == "streamed" and talk.request.max_frames == 12
        text = talk.text if live else talk.request.text
        if isinstance(result, Failed):
            assert talk.bad or not text.strip(), result.error
            return
        if talk.bad or not text.strip():
            assert result.stopped == "cancelled" and not len(result.codes)
            return
        alone = solo(replace(talk.request, text=text))
        if result.stopped == "cancelled":
            assert talk.cancelled
            if len(result.codes):
                np.testing.assert_array_equal(result.codes, alone.codes[: len(result.codes)])
        else:
            same(alone, result)


@pytest.mark.parametrize("least", [LEAST_STEPS, pytest.param(30 * LEAST_STEPS, marks=pytest.mark.slow)])
def test_anything_in_any_order(least: int) -> None:
    global steps  # noqa: PLW0603
    steps = 0
    checks = settings(
        max_examples=20, stateful_step_count=50, deadline=None, phases=[Phase.explicit, Phase.generate],
        report_multiple_bugs=False, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    while steps < least:  # how long the drawn histories are is up to chance
        stateful.run_state_machine_as_test(Machine, settings=checks)
