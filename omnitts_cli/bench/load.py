"""Loads: closed loop (a number of requests in flight, which begin together or apart) and open loop (a rate of
arrivals), for any target.
"""

import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from omnitts_cli.bench.record import Result, Work
from omnitts_cli.bench.target import BenchTarget, Ended
from omnitts_cli.errors import UsageError

CHECK_S = 0.1
"""How often a broken target is checked for while waiting."""


@dataclass(frozen=True)
class Extent:
    """How much is sent: a number of requests, or requests for some time. Every request runs to its end."""

    requests: int | None = None
    duration_s: float | None = None

    def over(self, sent: int, elapsed_s: float) -> bool:
        if self.requests is not None and sent >= self.requests:
            return True
        return self.duration_s is not None and elapsed_s >= self.duration_s


@dataclass
class Run:
    """One load, from its first request to its last sound; of a load that begins apart, the time in between in which
    the number of requests in flight is constant.
    """

    began: float
    ended: float = 0.0
    results: list[Result] = field(default_factory=list)
    most_in_flight: int = 0
    heard_s: float | None = None  # seconds of sound that arrived in this time; None: all sound of the results

    @property
    def duration_s(self) -> float:
        return self.ended - self.began

    def add(self, part: "Run") -> None:
        """Appends a later run; durations add up."""
        self.results += part.results
        self.ended += part.duration_s
        self.most_in_flight = max(self.most_in_flight, part.most_in_flight)
        if part.heard_s is not None:
            self.heard_s = (self.heard_s or 0.0) + part.heard_s


class _Load:
    """The common part of both loads: counting, and waiting for the last request."""

    def __init__(self, target: BenchTarget, works: Iterable[Work], extent: Extent, on_end: Ended | None) -> None:
        self._target, self._works, self._extent, self._on_end = target, iter(works), extent, on_end
        self._lock = threading.Lock()
        self._all_done = threading.Event()
        self._sent = self._in_flight = 0
        self._more = True
        self.run = Run(time.perf_counter())

    def _next(self, elapsed_s: float) -> Work | None:
        """The next request, counted as sent; None after the last."""
        with self._lock:
            over = not self._more or self._target.broken is not None or self._extent.over(self._sent, elapsed_s)
            work = None if over else next(self._works, None)
            if work is None:
                self._more = False
                self._finish()
                return None
            self._sent += 1
            self._in_flight += 1
            self.run.most_in_flight = max(self.run.most_in_flight, self._in_flight)
            return work

    def _take(self, result: Result) -> None:
        with self._lock:
            self.run.results.append(result)
            self.run.ended = max(self.run.ended, result.meter.ended or 0.0)
            self._in_flight -= 1
            self._finish()

    def _finish(self) -> None:
        if not self._more and self._in_flight == 0:
            self._all_done.set()

    def _notify(self, result: Result) -> None:
        if self._on_end is not None:
            self._on_end(result)

    def _wait(self) -> Run:
        while not self._all_done.wait(CHECK_S) and self._target.broken is None:
            pass
        if self._target.broken is not None:
            raise self._target.broken
        return self.run


class _Closed(_Load):
    """The thread that sees the end of a request sends the next one, so that no time passes between them."""

    def go(self, level: int) -> Run:
        for _ in range(level):
            self._send()
        return self._wait()

    def _send(self) -> None:
        now = time.perf_counter()
        work = self._next(now - self.run.began)
        if work is not None:
            self._target.send(work, now, self._ended)

    def _ended(self, result: Result) -> None:
        self._take(result)
        self._send()
        self._notify(result)


class _Open(_Load):
    def go(self, offsets: Iterable[float]) -> Run:
        for offset in offsets:
            wanted = self.run.began + offset
            if self._extent.over(self._sent, offset):
                break
            self._sleep_until(wanted)
            work = self._next(offset)
            if work is None:
                break
            self._target.send(work, wanted, self._ended)
        with self._lock:
            self._more = False
            self._finish()
        return self._wait()

    def _sleep_until(self, when: float) -> None:
        while (left := when - time.perf_counter()) > 0 and self._target.broken is None:
            time.sleep(min(left, CHECK_S))

    def _ended(self, result: Result) -> None:
        self._take(result)
        self._notify(result)


def closed_loop(
    target: BenchTarget, works: Iterable[Work], level: int, extent: Extent, on_end: Ended | None = None
) -> Run:
    """Keeps `level` requests in flight."""
    return _Closed(target, works, extent, on_end).go(level)


LEAST_SHARE = 0.1
"""Of the usual number of frames, in the shortest first request."""
LEAST_ROUNDS = 3
"""Requests for each place in flight, of a load that begins apart: one shorter, one that counts, one beside it."""


def apart_loop(
    target: BenchTarget, works: Iterable[Work], level: int, extent: Extent, on_end: Ended | None = None, seed: int = 0
) -> Run:
    """Keeps `level` requests in flight that do not begin together: the first ones have random lengths.

    The frames of every request must be fixed. What counts is the time from the end of the last of these first requests
    until the last request is sent.
    """
    run = closed_loop(target, staggered(works, level, seed), level, extent, on_end)
    firsts = sorted(run.results, key=lambda result: result.wanted)[:level]
    began = max((result.meter.ended or run.ended for result in firsts), default=run.ended)
    ended = max((result.wanted for result in run.results), default=began)
    if ended <= began:
        raise UsageError(
            f"--arrivals apart needs more requests for -c {level}",
            hint=f"-n {LEAST_ROUNDS * level}   or   a longer --duration",
        )
    arrived = [(at, samples / one.meter.sample_rate) for one in run.results for at, samples in one.meter.arrivals]
    kept = [result for result in run.results if result.wanted >= began or result.failure is not None]
    return Run(began, ended, kept, run.most_in_flight, sum(s for at, s in arrived if began <= at < ended))


def staggered(works: Iterable[Work], level: int, seed: int) -> Iterator[Work]:
    """The same works, the first `level` of them with fewer frames, drawn at random."""
    draw = np.random.default_rng(seed)
    for number, work in enumerate(works):
        frames = work.request.max_frames
        if number < level and frames is not None:
            fewer = int(draw.integers(max(1, int(LEAST_SHARE * frames)), frames + 1))
            yield replace(work, request=replace(work.request, max_frames=fewer))
        else:
            yield work


def open_loop(
    target: BenchTarget, works: Iterable[Work], offsets: Iterable[float], extent: Extent, on_end: Ended | None = None
) -> Run:
    """Sends requests at `offsets` seconds from now, whether or not earlier ones have ended."""
    return _Open(target, works, extent, on_end).go(offsets)


def arrivals(rate: float, burstiness: float = 1.0, seed: int = 0) -> Iterator[float]:
    """Arrival times of `rate` requests per second, without end.

    The gaps are drawn from a gamma distribution with shape `burstiness`: 1 is a Poisson process, below 1 is burstier,
    above 1 steadier. The first arrival also comes after a gap.
    """
    draw = np.random.default_rng(seed)
    scale = 1 / (rate * burstiness)
    return itertools.accumulate(float(draw.gamma(burstiness, scale)) for _ in itertools.count())
