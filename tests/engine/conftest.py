"""Fixtures of the engine: a toy model, engines that are made in no time, requests, and the recording device."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from omnitts_cli.audio.chunk import Chunk, Clip
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.engine import Engine, News
from omnitts_cli.engine.plan import Plan
from omnitts_cli.families.toy import toy
from omnitts_cli.kernels import cpu, plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.roles import Draft, LiveText, Prompt, Prompter, SpeechModel
from omnitts_cli.request import Failed, Request, Sampling
from omnitts_cli.voices import Cloned, Designed, Named

Result = Clip | Failed

KEY = ("language", "style", "sampling", "seed", "text_mode", "max_frames", "ignore_end")

WORDS = ("hello", "good morning", "one two three", "a b c", "tea?", "rain on the roof", "no", "and so on")


def strong(ops: Ops) -> SpeechModel:
    """Text and history weigh more than in the toy, so that a slip shows in the codes."""
    made = toy(groups=3, codes=24, hidden=32, predictor_hidden=16, ops=ops)
    made.talker.head.mul_(1.5)
    made.prompter._rows._text.out.weight.mul_(6)
    for stack in (made.talker.stack, made.predictor.stack):
        for layer in stack.layers:
            layer.out.mul_(3)
        stack.fuse()
    return made


@pytest.fixture(scope="session")
def model() -> SpeechModel:
    """Shared: leave it as it is."""
    return strong(plain.OPS)


@pytest.fixture(scope="session")
def on_cpu() -> SpeechModel:
    """The same over the operations of a CPU."""
    return strong(cpu.OPS)


@pytest.fixture(scope="session")
def in_c() -> SpeechModel:
    """The same with stacks, frames and codec of the compiled library."""
    ops = cpu.native()
    if ops is None:
        pytest.skip("the library of the CPU was not compiled")
    return strong(ops)


@pytest.fixture(scope="session")
def recording() -> ModuleType:
    """The module beside this file; tests are no package."""
    here = str(Path(__file__).parent)
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module("recording")


@dataclass(frozen=True, eq=False)
class Poisoned(Draft):
    """Says in which of its rows there will be numbers that are not finite."""

    where: str = ""

    @property
    def shared_key(self) -> tuple[object, ...]:
        return (self.where, *super().shared_key)


class Poisoner:
    """A prompter whose prompts can carry numbers that are not finite: style "poison <where>" says in which rows."""

    def __init__(self, prompter: Prompter) -> None:
        self._prompter = prompter

    def fresh(self) -> Poisoner:
        return Poisoner(self._prompter.fresh())

    def draft(self, request: Request) -> Draft:
        poison, _, where = (request.style or "").partition(" ")
        draft = self._prompter.draft(replace(request, style=None))
        return Poisoned(**vars(draft), where=where) if poison == "poison" else draft

    def prompts(self, drafts: Sequence[Draft]) -> list[Prompt]:
        prompts = self._prompter.prompts(drafts)
        for prompt in prompts:
            where = prompt.draft.where if isinstance(prompt.draft, Poisoned) else ""
            prompt.pad = prompt.pad.clone()  # which all have in common
            if where == "pad":
                prompt.pad[0] = float("nan")
            elif where:
                prompt.rows[{"first": 0, "middle": -2, "last": -1}[where]] = float("inf")
        return prompts

    def live(self, request: Request, first: str) -> tuple[Draft, LiveText]:
        return self._prompter.live(request, first)


@pytest.fixture(scope="session")
def poisonable(model: SpeechModel) -> SpeechModel:
    return replace(model, prompter=Poisoner(model.prompter))


@pytest.fixture(scope="session")
def plan_of(model: SpeechModel) -> Callable[..., Plan]:
    def make(slots: int = 4, seconds: float = 8, **more: Any) -> Plan:
        return Plan.of(slots, seconds, model.facts.frame_rate, **{"prompt_rows": 96, "pads": False} | more)

    return make


@pytest.fixture(scope="session")
def engine_of(model: SpeechModel, plan_of: Callable[..., Plan]) -> Callable[..., Engine]:
    """An engine over the toy; `device` None is the CPU. The rest goes to the plan."""

    def make(slots: int = 4, *, device: Any = None, of: SpeechModel | None = None, **more: Any) -> Engine:
        device = device or CPUDevice(1)
        return Engine(of or model, device, plan_of(slots, **{"pads": device.pads} | more))

    return make


@pytest.fixture(scope="session")
def requests_of(model: SpeechModel) -> Callable[..., list[Request]]:
    """Requests of every kind of voice and manner, all different, the same each time."""
    rng = np.random.default_rng(0)
    vector = rng.standard_normal(model.facts.hidden).astype(np.float32)
    heard = rng.integers(0, model.facts.codes, (7, model.facts.groups))
    voices = (
        Named("ann"),
        Cloned(vector, heard, "a clip"),
        Named("ben"),
        Designed("deep and slow"),
        Cloned(vector),
        Named("ann"),
        Cloned(vector, heard, "a clip"),
    )
    tastes = (
        Sampling(),
        Sampling(temperature=0.7, top_k=10),
        Sampling(temperature=0.0, predictor_temperature=0.0),
        Sampling(temperature=1.3, top_p=0.8, repetition_penalty=1.4),
        Sampling(predictor_temperature=0.5, predictor_top_k=5, predictor_top_p=0.9),
    )

    def make(count: int, start: int = 0, **same: Any) -> list[Request]:
        made = [
            Request(
                text=WORDS[i % len(WORDS)],
                voice=voices[i % len(voices)],
                language=(None, "english", "german")[i % 3],
                sampling=tastes[i % len(tastes)],
                seed=1000 + i,
                text_mode=(None, "streamed", "whole")[i % 3],
                max_frames=40,
                id=f"q{i}",
            )
            for i in range(start, start + count)
        ]
        return [replace(request, **same) for request in made]

    return make


def results(news: Iterable[News]) -> dict[str, Result]:
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


@pytest.fixture(scope="session")
def join() -> Callable[[Iterable[News]], dict[str, Result]]:
    return results


@pytest.fixture(scope="session")
def speak(engine_of: Callable[..., Engine]) -> Callable[..., dict[str, Result]]:
    """Requests through a fresh engine, or through `engine`."""

    def run(
        requests: Iterable[Request], slots: int = 4, engine: Engine | None = None, **more: Any
    ) -> dict[str, Result]:
        engine = engine or engine_of(slots, **more)
        over = results(engine.speak(requests))
        at_rest(engine)
        return over

    return run


def at_rest(engine: Engine) -> None:
    """Nothing is left of what was spoken."""
    assert not engine.busy
    assert sorted(engine._free) == list(range(engine.plan.slots))
    assert not (engine._running or engine._opening or engine._waiting or engine._tickets)
    engine.device.synchronize()
    assert not engine._bench.table.live.any()


@pytest.fixture(scope="session")
def rested() -> Callable[[Engine], None]:
    return at_rest


@pytest.fixture(scope="session")
def same() -> Callable[[Result, Result], None]:
    """Two clips with the same codes, the same end, and the same sound up to the rounding of other shapes."""

    def check(one: Result, other: Result, exact: bool = False) -> None:
        assert isinstance(one, Clip) and isinstance(other, Clip), (one, other)
        np.testing.assert_array_equal(one.codes, other.codes)
        assert one.stopped == other.stopped
        np.testing.assert_allclose(one.pcm, other.pcm, rtol=0, atol=0 if exact else 2e-5)

    return check


@pytest.fixture(scope="session")
def solo(model: SpeechModel) -> Callable[[Request], Clip]:
    """What a request gives when nobody else is there; remembered."""
    engine = Engine(model, CPUDevice(1), Plan.of(1, 20, model.facts.frame_rate, prompt_rows=96, pads=False))
    known: dict[tuple[Any, ...], Clip] = {}

    def clip(request: Request) -> Clip:
        key = (request.text, id(request.voice), *(getattr(request, name) for name in KEY))
        if key not in known:
            known[key] = engine.clip(replace(request, id=""))
            kept.append(request.voice)
        return known[key]

    kept: list[object] = []
    return clip


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
