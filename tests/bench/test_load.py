"""Loads: levels kept, arrivals as drawn, ends waited for; over a target that only counts."""

import itertools
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bench_kit import works
from patience import eventually

from omnitts_cli.bench import load
from omnitts_cli.bench.load import Extent, apart_loop, arrivals, closed_loop, open_loop, staggered
from omnitts_cli.bench.meter import RequestMeter
from omnitts_cli.bench.record import Result
from omnitts_cli.errors import UsageError


class Echo:
    """Answers each request after `lasts_s`, in a thread of its own; none before `at_once` have come together."""

    def __init__(self, lasts_s: float = 0.01, at_once: int = 0) -> None:
        self.lasts_s, self.at_once, self.broken = lasts_s, at_once, None
        self.sent: list[float] = []
        self.now = self.most = 0
        self._lock = threading.Lock()

    def send(self, work: Any, wanted: float, ended: Any) -> None:
        with self._lock:
            self.sent.append(time.perf_counter())
            self.now += 1
            self.most = max(self.most, self.now)
        threading.Thread(target=self._answer, args=(work, wanted, ended)).start()

    def _answer(self, work: Any, wanted: float, ended: Any) -> None:
        result = Result(work, wanted, RequestMeter(8000, time.perf_counter()))
        eventually(lambda: self.most >= self.at_once)
        time.sleep(self.lasts_s)
        result.add(np.ones(80, np.float32), time.perf_counter())
        with self._lock:
            self.now -= 1
        result.end(time.perf_counter(), None)
        ended(result)


@pytest.mark.parametrize(("level", "count"), [(1, 3), (4, 17), (10, 5)])
def test_a_closed_loop_keeps_its_level_and_sends_no_more_than_asked(level: int, count: int) -> None:
    target = Echo(at_once=min(level, count))
    run = closed_loop(target, works(), level, Extent(count))
    assert len(run.results) == len(target.sent) == count
    assert run.most_in_flight == min(level, count) >= target.most


def test_a_closed_loop_ends_when_the_works_do() -> None:
    run = closed_loop(Echo(), itertools.islice(works(), 5), 3, Extent(100))
    assert len(run.results) == 5


def test_a_closed_loop_by_time_receives_everything_it_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock shows a second more whenever it is read: once at the start and once for each request."""
    seconds = itertools.count()
    monkeypatch.setattr(load, "time", SimpleNamespace(perf_counter=lambda: float(next(seconds))))
    target = Echo()
    run = closed_loop(target, works(), 2, Extent(duration_s=30.0))
    assert len(run.results) == len(target.sent) == 29
    assert max(result.wanted for result in run.results) == 29.0


class Speaker(Echo):
    """Answers with a second of sound for each frame."""

    def _answer(self, work: Any, wanted: float, ended: Any) -> None:
        result = Result(work, wanted, RequestMeter(100, time.perf_counter()))
        time.sleep(0.001 * work.request.max_frames)
        result.add(np.ones(100 * work.request.max_frames, np.float32), time.perf_counter())
        result.end(time.perf_counter(), None)
        ended(result)


def test_the_first_requests_of_a_load_that_begins_apart_are_shorter() -> None:
    made = list(itertools.islice(staggered(works(max_frames=40), 50, seed=3), 60))
    firsts = [work.request.max_frames for work in made[:50]]
    assert min(firsts) >= 4 and max(firsts) <= 40 and len(set(firsts)) > 20
    assert [work.request.max_frames for work in made[50:]] == [40] * 10
    assert [work.request.max_frames for work in itertools.islice(staggered(works(max_frames=40), 50, 3), 50)] == firsts


def test_of_a_load_that_begins_apart_the_middle_counts() -> None:
    received: list[Result] = []
    run = apart_loop(Speaker(), works(max_frames=20), 4, Extent(24), received.append)
    eventually(lambda: len(received) == 24)
    firsts = sorted(received, key=lambda result: result.wanted)[:4]
    assert run.began == max(result.meter.ended for result in firsts) < run.ended
    assert run.results == [result for result in run.results if result.wanted >= run.began]
    assert {result.work.request.max_frames for result in run.results} == {20}
    assert 0 < run.heard_s <= sum(result.meter.audio_s for result in received)
    with pytest.raises(UsageError):  # it needs more than its first requests
        apart_loop(Speaker(), works(max_frames=20), 4, Extent(4))


def test_an_open_loop_does_not_wait_for_answers() -> None:
    target = Echo(at_once=10)
    run = open_loop(target, works(), [0.01 * n for n in range(10)], Extent(10))
    assert run.most_in_flight == 10
    assert len(run.results) == 10


def test_an_open_loop_ends_with_its_extent_or_with_its_arrivals() -> None:
    assert len(open_loop(Echo(), works(), [0.0, 0.01, 0.02], Extent(2)).results) == 2
    assert len(open_loop(Echo(), works(), [0.0, 0.01], Extent(9)).results) == 2
    assert len(open_loop(Echo(), works(), [0.0, 0.05, 0.9], Extent(duration_s=0.1)).results) == 2
    assert open_loop(Echo(), works(), [], Extent(9)).results == []


def test_a_client_that_is_late_says_so() -> None:
    class Slow(Echo):
        def send(self, work: Any, wanted: float, ended: Any) -> None:
            time.sleep(0.05)
            super().send(work, wanted, ended)

    run = open_loop(Slow(), works(), [0.0, 0.0, 0.0], Extent(3))
    waited = sorted(result.queue_s for result in run.results)
    assert all(least <= found for least, found in zip((0.05, 0.10, 0.15), waited, strict=True))


def test_the_callback_gets_every_end() -> None:
    received: list[Result] = []
    run = closed_loop(Echo(), works(), 3, Extent(9), received.append)
    eventually(lambda: len(received) == 9)
    assert {id(result) for result in received} == {id(result) for result in run.results}


@pytest.mark.parametrize("burstiness", [0.3, 1.0, 5.0])
def test_arrivals_have_the_rate_and_the_spread_that_were_asked_for(burstiness: float) -> None:
    times = np.array(list(itertools.islice(arrivals(20, burstiness, seed=1), 20_000)))
    gaps = np.diff(times)
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(1 / 20, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.05)


def test_poisson_arrivals_are_poisson() -> None:
    times = np.array(list(itertools.islice(arrivals(10, seed=2), 30_000)))
    counts = np.bincount(times.astype(int))[:-1]
    assert counts.mean() == pytest.approx(10, rel=0.02)
    assert counts.var() == pytest.approx(10, rel=0.1)


def test_arrivals_repeat_with_their_seed() -> None:
    def first(seed: int) -> list[float]:
        return list(itertools.islice(arrivals(5, 1.0, seed), 9))

    assert first(1) == first(1) != first(2)
