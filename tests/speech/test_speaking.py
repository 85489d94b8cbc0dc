"""Speaking: order, retries and safety, against an engine that does exactly what a test says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from omnitts_cli.audio.chunk import Chunk, Stopped
from omnitts_cli.audio.sinks import MemorySink
from omnitts_cli.errors import GuardError, InputError
from omnitts_cli.request import Failed, Request
from omnitts_cli.speech.script import Written
from omnitts_cli.speech.speaking import Manner, Speaking, sub_seed
from omnitts_cli.speech.tape import Tape
from omnitts_cli.terminal.console import console
from omnitts_cli.text.piece import Piece

RATE = 8000


class Scripted:
    """An engine that hands out one chunk per step, in an order of its own. `ends` says how each request stops."""

    def __init__(self, order: Iterable[str], ends: dict[str, Stopped] | None = None) -> None:
        self.order, self.ends = list(order), ends or {}
        self.asked: dict[str, Request] = {}
        self.waiting: list[str] = []

    def submit(self, request: Request) -> str:
        self.asked[request.id] = request
        self.waiting.append(request.id)
        return request.id

    @property
    def busy(self) -> bool:
        return bool(self.waiting)

    def step(self) -> list[Any]:
        name = next((name for name in self.order if name in self.waiting), self.waiting[0])
        self.waiting.remove(name)
        level = 0.1 * (1 + int(name.split(".")[0]))
        half = np.full(400, level, np.float32)
        codes = np.zeros((1, 4), np.int64)
        return [
            Chunk(name, 0, half, codes),
            Chunk(name, 1, half.copy(), codes, True, self.ends.get(name, "end")),
        ]


def script(*texts: str) -> Written:
    pieces = [Piece(text, 0, len(text), 0, "sentence" if n else "none") for n, text in enumerate(texts)]
    return Written(iter(pieces), sum(map(len, texts)))


def spoken(engine: Any, texts: Written, **manner: Any) -> tuple[Any, MemorySink]:
    console.reset()
    sink = MemorySink()
    how = Manner(Request(""), seed=5, sentence_gap_s=0.0, **manner)
    return Speaking(engine, Tape(sink, RATE), how).speak(texts), sink


def levels(sink: MemorySink) -> list[float]:
    """The level in the middle of each piece of 800 samples."""
    return [round(float(sink.sound[at]), 2) for at in range(400, sink.sound.size, 800)]


@pytest.mark.parametrize("safe", [True, False])
def test_the_script_decides_the_order(safe: bool) -> None:
    engine = Scripted(["2.0", "1.0", "0.0"])
    account, sink = spoken(engine, script("a", "b", "c"), safe=safe)
    assert levels(sink) == [0.1, 0.2, 0.3]
    assert [one.text for one in account.sentences] == ["a", "b", "c"]
    assert [one.start for one in account.sentences] == [0.0, 0.1, 0.2]


def test_no_more_is_taken_than_there_is_room_for() -> None:
    class Counting(Scripted):
        most = 0

        def submit(self, request: Request) -> str:
            self.most = max(self.most, len(self.waiting) + 1)
            return super().submit(request)

    engine = Counting([])
    spoken(engine, script(*"abcdefgh"), ahead=3)
    assert engine.most == 3


@pytest.mark.parametrize("safe", [True, False])
def test_a_piece_that_ran_away_is_tried_again_with_another_seed(safe: bool) -> None:
    engine = Scripted([], {"1.0": "stall"})
    account, sink = spoken(engine, script("a", "b", "c"), safe=True)
    assert levels(sink) == [0.1, 0.2, 0.3]
    assert (account.retries, account.guard_hits) == (1, 1)
    assert len({request.seed for request in engine.asked.values()}) == 4


def test_after_all_tries_it_is_given_up_with_its_text_and_seeds() -> None:
    engine = Scripted([], dict.fromkeys(("1.0", "1.1", "1.2"), "limit"))
    with pytest.raises(GuardError, match="piece 2 kept talking") as caught:
        spoken(engine, script("a", "odd text", "c"), retries=2)
    assert "odd text" in str(caught.value.cause) and "3 tries" in str(caught.value)


def test_what_was_heard_cannot_be_called_back() -> None:
    engine = Scripted([], {"0.0": "silence"})
    account, sink = spoken(engine, script("a", "b"), safe=False, retries=0)
    assert levels(sink) == [0.1, 0.2]
    assert account.stopped == "silence" and "fell silent" in console.warnings[0]


def test_a_cap_of_the_user_is_no_failure() -> None:
    console.reset()
    sink, engine = MemorySink(), Scripted([], {"0.0": "limit"})
    how = Manner(Request("", max_frames=2), seed=5)
    account = Speaking(engine, Tape(sink, RATE), how).speak(script("a"))  # type: ignore[arg-type]
    assert account.stopped == "limit" and account.guard_hits == 0
    assert "cut at 2 frames" in console.warnings[0]


def test_a_request_that_failed_ends_the_job() -> None:
    class Failing(Scripted):
        def step(self) -> list[Any]:
            return [Failed(self.waiting.pop(0), InputError("no"))]

    with pytest.raises(InputError, match="no"):
        spoken(Failing([]), script("a"))


def test_pauses_are_silence_in_their_place() -> None:
    pieces = [Piece("a", 0, 1), Piece("", 1, 2, pause_s=0.1), Piece("b", 2, 3)]
    account, sink = spoken(Scripted([]), Written(iter(pieces), 3))
    assert levels(sink) == [0.1, 0.0, 0.2]
    assert account.pieces == 2


def test_codes_are_kept_only_when_they_are_wanted() -> None:
    assert spoken(Scripted([]), script("a", "b"), keep_codes=True)[0].codes[0].shape == (1, 4)
    assert spoken(Scripted([]), script("a", "b"))[0].codes == []


def test_seeds_depend_on_seed_piece_and_try_only() -> None:
    assert sub_seed(7, 0, 0) == 7
    seeds = {sub_seed(s, k, t) for s in (7, 8) for k in range(50) for t in range(3)}
    assert len(seeds) == 300
    assert sub_seed(7, 3, 1) == sub_seed(7, 3, 1)


def test_an_engine_that_forgets_is_told_and_not_waited_for() -> None:
    class Forgetful(Scripted):
        def step(self) -> list[Any]:
            self.waiting.clear()
            return []

    with pytest.raises(RuntimeError, match="piece 1"):
        spoken(Forgetful([]), script("a"))
