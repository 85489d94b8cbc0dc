"""Speaking: order, retries and safety, against an engine that does exactly what a test says."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from patience import LONG_S

from omnitts_cli.audio.chunk import Chunk, Stopped
from omnitts_cli.errors import GuardError, InputError, TextError
from omnitts_cli.request import Failed, Request
from omnitts_cli.speech import load
from omnitts_cli.speech.clip import Clip
from omnitts_cli.speech.loop import Loop
from omnitts_cli.speech.script import Written
from omnitts_cli.speech.speaking import Account, Manner, Stream, estimated_s, sub_seed
from omnitts_cli.text.piece import Piece

RATE = 8000


class Scripted:
    """An engine that speaks one request per step: first those whose text is in `order`, in that order.

    `ends` says how the tries of a text stop, one after the other; the rest ends well.
    """

    plan, model, device, queued = SimpleNamespace(slots=100), None, None, 0

    def __init__(self, order: Iterable[str] = (), ends: dict[str, list[Stopped]] | None = None) -> None:
        self.order, self.ends = list(order), ends or {}
        self.asked: list[Request] = []
        self.waiting: list[Request] = []
        self.cancelled: list[str] = []
        self.admitted: dict[str, float] = {}

    def submit(self, request: Request, **how: Any) -> str:
        request = replace(request, id=f"s{len(self.asked) + 1}")
        self.asked.append(request)
        self.waiting.append(request)
        return request.id

    def cancel(self, name: str) -> None:
        self.cancelled.append(name)
        self.waiting = [request for request in self.waiting if request.id != name]

    @property
    def busy(self) -> bool:
        return bool(self.waiting)

    def step(self) -> list[Any]:
        texts = [request.text for request in self.waiting]
        first = next((text for text in self.order if text in texts), texts[0])
        request = self.waiting.pop(texts.index(first))
        level = 0.1 * (1 + "abcdefgh".index(request.text[0]))
        half, codes = np.full(400, level, np.float32), np.zeros((1, 4), np.int64)
        ends = self.ends.get(request.text, [])
        stopped: Stopped = ends.pop(0) if ends else "end"
        return [Chunk(request.id, 0, half, codes), Chunk(request.id, 1, half.copy(), codes, True, stopped)]


def script(*texts: str) -> Written:
    pieces = [Piece(text, 0, len(text), 0, "sentence" if n else "none") for n, text in enumerate(texts)]
    return Written(iter(pieces), sum(map(len, texts)))


def spoken(engine: Any, texts: Written, **manner: Any) -> tuple[Account, Clip]:
    how = Manner(Request(""), seed=5, **{"sentence_gap_s": 0.0, **manner})
    with closing(Loop(engine)) as loop:
        stream = Stream(loop, RATE, how, texts)
        return stream.account, stream.clip()


def levels(clip: Clip) -> list[float]:
    """The level in the middle of each piece of 800 samples."""
    return [round(float(clip.samples[at]), 2) for at in range(400, clip.samples.size, 800)]


@pytest.mark.parametrize("safe", [True, False])
def test_the_script_decides_the_order(safe: bool) -> None:
    engine = Scripted("cba")
    account, clip = spoken(engine, script("a", "b", "c"), safe=safe)
    assert levels(clip) == [0.1, 0.2, 0.3]
    assert [one.text for one in account.sentences] == ["a", "b", "c"]
    assert [one.start_s for one in account.sentences] == [0.0, 0.1, 0.2]


@pytest.mark.parametrize("safe", [True, False])
def test_a_listener_gets_the_first_piece_alone(safe: bool) -> None:
    """Until it has sound; a text that is handed over whole is begun everywhere at once."""
    silence = Piece("", 0, 0, pause_s=0.1)
    pieces = [silence, *(Piece(text, 0, 1) for text in "abc")]
    engine = Scripted("cba")
    with closing(Loop(engine)) as loop:
        how = Manner(Request(""), seed=5, sentence_gap_s=0.0, first_alone=True, safe=safe)
        stream = Stream(loop, RATE, how, Written(iter(pieces), 3))
        assert len(engine.asked) == (3 if safe else 1)
        stream.clip()
        assert [one.text for one in stream.account.sentences] == ["a", "b", "c"] and len(engine.asked) == 3


def test_no_more_is_taken_than_there_is_room_for() -> None:
    class Slow(Scripted):
        """Waits before each step until three requests have come, or all eight."""

        most, came = 0, threading.Condition()

        def submit(self, request: Request, **how: Any) -> str:
            with self.came:
                self.most = max(self.most, len(self.waiting) + 1)
                self.came.notify()
                return super().submit(request, **how)

        def step(self) -> list[Any]:
            with self.came:
                assert self.came.wait_for(lambda: len(self.waiting) >= 3 or len(self.asked) == 8, LONG_S)
                return super().step()

    engine = Slow()
    spoken(engine, script(*"abcdefgh"), ahead=3)
    assert engine.most == 3


def test_a_piece_that_ran_away_is_tried_again_with_another_seed() -> None:
    engine = Scripted(ends={"b": ["stall"]})
    account, clip = spoken(engine, script("a", "b", "c"), safe=True)
    assert levels(clip) == [0.1, 0.2, 0.3]
    assert (account.retries, account.guard_hits) == (1, 1)
    assert len({request.seed for request in engine.asked}) == 4


def test_after_all_tries_it_is_given_up_with_its_text_and_seeds() -> None:
    engine = Scripted(ends={"bad text": ["limit"] * 3})
    with pytest.raises(GuardError, match="sentence 2 kept talking") as caught:
        spoken(engine, script("a", "bad text", "c"), retries=2)
    assert "bad text" in str(caught.value.cause) and "3 tries" in str(caught.value)


def test_what_was_given_out_cannot_be_called_back() -> None:
    engine = Scripted(ends={"a": ["silence"]})
    account, clip = spoken(engine, script("a", "b"), safe=False, retries=0)
    assert levels(clip) == [0.1, 0.2]
    assert account.stopped == "silence" and "fell silent" in account.notices[0].message


def test_a_cap_of_the_user_is_no_failure() -> None:
    with closing(Loop(Scripted(ends={"a": ["limit"]}))) as loop:  # type: ignore[arg-type]
        stream = Stream(loop, RATE, Manner(Request("", max_frames=2), seed=5), script("a"))
        stream.clip()
    assert stream.account.stopped == "limit" and stream.account.guard_hits == 0
    assert "cut at 2 frames" in stream.account.notices[0].message


def test_a_request_that_failed_ends_the_job() -> None:
    class Failing(Scripted):
        def step(self) -> list[Any]:
            return [Failed(self.waiting.pop(0).id, InputError("no"))]

    with pytest.raises(InputError, match="no"):
        spoken(Failing(), script("a"))


def test_pauses_are_silence_in_their_place_however_many() -> None:
    pieces = [Piece("a", 0, 1), Piece("", 1, 2, pause_s=0.1), Piece("b", 2, 3)]
    account, clip = spoken(Scripted(), Written(iter(pieces), 3))
    assert levels(clip) == [0.1, 0.0, 0.2]
    assert account.pieces == 2
    pieces = [Piece("", n, n + 1, pause_s=0.05) for n in range(20)]
    account, clip = spoken(Scripted(), Written(iter([*pieces, Piece("a", 20, 21)]), None), ahead=3)
    assert clip.samples.size == 20 * 400 + 800 and account.pieces == 1


def test_codes_are_kept_when_wanted_and_requests_that_end_count_as_admitted() -> None:
    """A server ends those that are not after a while."""
    account, _ = spoken(Scripted(), script("a", "b"))
    assert account.queued_s is not None and account.queued_s >= 0
    assert spoken(Scripted(), script("a", "b"), keep_codes=True)[0].codes[0].shape == (1, 4)
    assert spoken(Scripted(), script("a", "b"))[0].codes == []


def test_seeds_depend_on_seed_piece_and_try_only() -> None:
    assert sub_seed(7, 0, 0) == 7
    seeds = {sub_seed(s, k, t) for s in (7, 8) for k in range(50) for t in range(3)}
    assert len(seeds) == 300
    assert sub_seed(7, 3, 1) == sub_seed(7, 3, 1)


def test_an_engine_that_loses_a_request_is_reported_and_not_awaited() -> None:
    class Forgetful(Scripted):
        def step(self) -> list[Any]:
            self.waiting.clear()
            return []

    with pytest.raises(RuntimeError, match="lost s1"):
        spoken(Forgetful(), script("a"))


def test_what_is_made_never_shrinks_and_ends_as_the_whole() -> None:
    import omnitts_cli as omnitts

    with omnitts.load("random:toy") as tts:
        text = "First one here. Second one there. And a third one as well."
        stream = tts.stream(text, seed=1, max_frames=30, speed=1.5)
        seen = [stream.made_s]
        for _ in stream:
            seen.append(stream.made_s)
        assert stream.finished and seen[-1] == pytest.approx(stream.seconds)
        drops = [one - other for one, other in pairwise(seen)]
        assert max(drops) < 0.05, "a guess of the faster speech may be a little long"


@pytest.mark.parametrize(
    ("text", "like"),
    [("水壶正在烧", "e" * 20), ("안녕하세요", "e" * 20), ("Grüße, Алиса", "e" * 12), ("a漢b", "e" * 6)],
)
def test_cjk_characters_take_as_long_as_several_letters(text: str, like: str) -> None:
    assert estimated_s(text) == estimated_s(like) == pytest.approx(0.4 + len(like) / 18)


def test_a_text_that_is_read_apart_gives_the_same_speech() -> None:
    """The caller has it read, in a thread; what goes wrong there is raised where the speech is made."""
    texts = [*"abcdefgh"]
    account, clip = spoken(Scripted(), script(*texts), ahead=3)
    with closing(Loop(Scripted())) as loop:
        manner = Manner(Request(""), seed=5, sentence_gap_s=0.0, ahead=3, apart=True)
        stream = Stream(loop, RATE, manner, script(*texts))
        parts, threads = [], set[str]()
        deadline = time.monotonic() + LONG_S
        while not stream.complete:
            assert time.monotonic() < deadline
            if stream.hungry:
                reader = threading.Thread(target=stream.prepare)
                reader.start()
                reader.join()
                threads.add(reader.name)
            parts += [chunk.samples for chunk in stream.poll()]
        assert np.array_equal(np.concatenate(parts), clip.samples) and len(threads) > 3
        assert [one.text for one in stream.account.sentences] == [one.text for one in account.sentences]


def test_an_error_of_the_text_that_is_read_apart() -> None:
    def pieces() -> Iterator[Piece]:
        yield Piece("a", 0, 1)
        raise InputError("no more")

    with closing(Loop(Scripted())) as loop:
        stream = Stream(loop, RATE, Manner(Request(""), seed=5, apart=True), Written(pieces(), 1))
        stream.prepare()
        assert not stream.hungry and not stream.complete
        with pytest.raises(InputError, match="no more"):
            while True:
                list(stream.poll())


def test_a_text_of_which_nothing_can_be_read_is_refused_before_an_answer_begins() -> None:
    def nothing(text: str) -> str:
        return ""

    with closing(Loop(load.open_engine("random:toy", threads=1))) as loop:
        pieces = [Piece("Привет.", 0, 7), Piece("Мир.", 8, 12)]
        with pytest.raises(TextError, match=r"Привет\."):
            Stream(loop, 8000, Manner(Request(""), seed=5, read=nothing), Written(iter(pieces), 12))
