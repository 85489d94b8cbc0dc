"""Engines over the toy model that are made in no time, requests of every kind, and what their results must be."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from omnitts_cli.audio.chunk import Chunk, Clip
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.engine import Engine, News
from omnitts_cli.engine.slots import Plan
from omnitts_cli.families.toy import toy
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.prompts import Draft, LiveRows, Prompt, Prompter
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Failed, Request, Sampling
from omnitts_cli.voices import Cloned, Designed, Named

Result = Clip | Failed

WORDS = ("hello", "good morning", "one two three", "a b c", "tea?", "rain on the roof", "no", "and so on")

TASTES = (
    Sampling(),
    Sampling(temperature=0.7, top_k=10),
    Sampling(temperature=0.0, predictor_temperature=0.0),
    Sampling(temperature=1.3, top_p=0.8, repetition_penalty=1.4),
    Sampling(predictor_temperature=0.5, predictor_top_k=5, predictor_top_p=0.9),
)


@functools.cache
def model_over(ops: Ops = plain.OPS) -> SpeechModel:
    """A toy in which text and history weigh more, so that a slip shows in the codes. Shared: leave it as it is."""
    made = toy(groups=3, codes=24, hidden=32, predictor_hidden=16, ops=ops)
    made.talker.head.mul_(1.5)
    made.prompter._text.out.weight.mul_(6)
    for stack in (made.talker.stack, made.predictor.stack):
        for layer in stack.layers:
            layer.out.mul_(3)
        stack.fuse()
    return made


@dataclass(frozen=True, eq=False)
class PoisonedDraft(Draft):
    """Says in which of its rows there will be numbers that are not finite."""

    where: str = ""

    @property
    def shared_key(self) -> tuple[object, ...]:
        return (self.where, *super().shared_key)


class Poisoner:
    """A prompter whose prompts can carry numbers that are not finite: style "poison <where>" says in which rows."""

    def __init__(self, prompter: Prompter) -> None:
        self._prompter = prompter

    def fresh(self) -> "Poisoner":
        return Poisoner(self._prompter.fresh())

    def draft(self, request: Request) -> Draft:
        poison, _, where = (request.style or "").partition(" ")
        draft = self._prompter.draft(replace(request, style=None))
        return PoisonedDraft(**vars(draft), where=where) if poison == "poison" else draft

    def prompts(self, drafts: Sequence[Draft]) -> list[Prompt]:
        prompts = self._prompter.prompts(drafts)
        for prompt in prompts:
            where = prompt.draft.where if isinstance(prompt.draft, PoisonedDraft) else ""
            prompt.pad = prompt.pad.clone()  # which all have in common
            if where == "pad":
                prompt.pad[0] = float("nan")
            elif where:
                prompt.rows[{"first": 0, "middle": -2, "last": -1}[where]] = float("inf")
        return prompts

    def live(self, request: Request, first: str) -> tuple[Draft, LiveRows]:
        return self._prompter.live(request, first)


def plan_of(slots: int = 4, seconds: float = 8, **more: Any) -> Plan:
    return Plan.of(slots, seconds, model_over().facts.frame_rate, **{"prompt_rows": 96, "pads": False} | more)


@functools.cache
def quick_model() -> SpeechModel:
    """The same over the operations of a CPU. In the compiled library a frame takes a thirtieth of the time."""
    return model_over(CPUDevice(1).ops())


def engine_of(slots: int = 4, *, device: Any = None, of: SpeechModel | None = None, **more: Any) -> Engine:
    """An engine over the toy: on the CPU, or over the plain operations on `device`. The rest goes to the plan."""
    of = of or (model_over() if device else quick_model())
    device = device or CPUDevice(1)
    return Engine(of, device, plan_of(slots, **{"pads": device.pads} | more))


class PaddingDevice(CPUDevice):
    """A CPU that pads batches as an accelerator does."""

    pads = True


@functools.cache
def voices() -> tuple[Any, ...]:
    rng, facts = np.random.default_rng(0), model_over().facts
    vector = rng.standard_normal(facts.hidden).astype(np.float32)
    clip = rng.integers(0, facts.codes, (7, facts.groups))
    return (
        Named("ann"), Cloned(vector, clip, "a clip"), Named("ben"), Designed("deep and slow"), Cloned(vector),
        Named("ann"), Cloned(vector, clip, "a clip"),
    )  # fmt: skip


def requests_of(count: int, start: int = 0, **same: Any) -> list[Request]:
    """Requests of every kind of voice and manner, all different, the same each time."""
    made = [
        Request(
            text=WORDS[i % len(WORDS)], voice=voices()[i % len(voices())], language=(None, "english", "german")[i % 3],
            sampling=TASTES[i % len(TASTES)], seed=1000 + i, text_mode=(None, "streamed", "whole")[i % 3],
            max_frames=40, id=f"q{i}",
        )
        for i in range(start, start + count)
    ]  # fmt: skip
    return [replace(request, **same) for request in made]


def join(news: Iterable[News]) -> dict[str, Result]:
    """What became of each request; checks what every stream of news promises."""
    chunks: dict[str, list[Chunk]] = {}
    over: dict[str, Result] = {}
    for one in news:
        assert one.request not in over, f"{one.request} was over"
        if isinstance(one, Failed):
            over[one.request] = one
            continue
        mine = chunks.setdefault(one.request, [])
        assert one.index == len(mine)
        assert one.last == (one.stopped is not None)
        assert one.pcm.dtype == np.float32 and one.codes.dtype == np.int64
        mine.append(one)
        if one.last:
            over[one.request] = Clip.join(mine)
    assert chunks.keys() <= over.keys(), "a request was left without an end"
    return over


def to_the_end(engine: Engine) -> list[News]:
    """Steps until nothing is left to do."""
    news: list[News] = []
    while engine.busy:
        news += engine.step()
    return news


def turns(engine: Engine, count: int) -> list[News]:
    """At most `count` steps, as long as they would not sleep."""
    news: list[News] = []
    for _ in range(count):
        if engine.busy and not engine.snapshot().sleeps:
            news += engine.step()
    return news


def speak(requests: Iterable[Request], slots: int = 4, engine: Engine | None = None, **more: Any) -> dict[str, Result]:
    """Requests through a fresh engine, or through `engine`."""
    engine = engine or engine_of(slots, **more)
    over = join(engine.speak(requests))
    rested(engine)
    return over


def rested(engine: Engine) -> None:
    """Nothing is left of what was spoken, on the host or on the device."""
    snapshot = engine.snapshot()
    assert not engine.busy and snapshot.at_rest
    assert snapshot.free == tuple(range(engine.plan.slots))
    assert not any(engine.columns(slot)["live"] for slot in range(engine.plan.slots + 1))


def same(one: Result, other: Result, exact: bool = False) -> None:
    """Two clips with the same codes, the same end, and the same sound up to the rounding of other shapes."""
    assert isinstance(one, Clip) and isinstance(other, Clip), (one, other)
    np.testing.assert_array_equal(one.codes, other.codes)
    assert one.stopped == other.stopped
    np.testing.assert_allclose(one.pcm, other.pcm, rtol=0, atol=0 if exact else 2e-5)


def as_alone(requests: Iterable[Request], over: dict[str, Result]) -> None:
    """Each result equals that of the request alone."""
    for request in requests:
        same(solo(request), over[request.id])


@functools.cache
def _alone() -> Engine:
    return engine_of(1, seconds=20)


_known: dict[tuple[Any, ...], tuple[Clip, object]] = {}


def solo(request: Request) -> Clip:
    """What a request gives when nobody else is there; remembered."""
    facts = {name: value for name, value in vars(request).items() if name not in ("id", "voice")}
    key = (id(request.voice), *facts.values())
    if key not in _known:
        _known[key] = _alone().clip(replace(request, id="")), request.voice  # the voice stays, so that its id does
    return _known[key][0]
