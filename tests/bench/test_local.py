"""The engine as a target: what the instrument says of a scripted engine is what really happened."""

import _thread
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from bench_kit import Clock, fake_engine, script, works

from omnitts_cli.bench.load import Extent, Run, arrivals, closed_loop, open_loop
from omnitts_cli.bench.local import EngineTarget
from omnitts_cli.bench.record import Work
from omnitts_cli.bench.stats import LoadLevel, level
from omnitts_cli.request import Request
from omnitts_cli.voices import Cloned

FRAME_S = 0.08


def about(expected: float, least: float = 2.0) -> Any:
    """2 %, or 2 ms."""
    return pytest.approx(expected, rel=0.02, abs=least)


def spread_of(values: list[float]) -> dict[str, float]:
    return {
        "mean": float(np.mean(values)), "median": float(np.median(values)), "p90": float(np.percentile(values, 90)),
        "p95": float(np.percentile(values, 95)), "p99": float(np.percentile(values, 99)),
    }  # fmt: skip


def played_dry(delivery: Any, stored_s: float = 0.2) -> int:
    """How often a player with a store runs dry: sound that is there against sound that has been played."""
    dry, played_s, started, playing = 0, 0.0, 0.0, False
    for at, frames in delivery.arrivals:
        if playing and at - started > played_s:
            dry, playing, played_s = dry + 1, False, 0.0
        played_s += frames * FRAME_S
        if not playing and played_s >= stored_s:
            playing, started = True, at
    return dry


def audible(delivery: Any) -> float:
    """When a player without a store sounds the first sample that is not zero, in ms."""
    free = 0.0
    for (at, frames), packet in zip(delivery.arrivals, delivery.script.packets, strict=True):
        start = max(at, free)
        if packet.silent < frames * 1920:
            return 1000 * (start + packet.silent / 24_000 - delivery.submitted)
        free = start + frames * FRAME_S
    raise AssertionError("it is silent throughout")


def matches(found: LoadLevel, engine: Any, run: Run) -> None:
    """Every reported figure against the fake engine's own notes."""
    good = [delivery for delivery in engine.deliveries if delivery.script.failure is None]
    firsts = [1000 * (delivery.arrivals[0][0] - delivery.submitted) for delivery in good]
    wholes = [1000 * (delivery.ended - delivery.submitted) for delivery in good]
    audio = [delivery.script.audio_s for delivery in good]
    gaps = [1000 * (later[0] - sooner[0]) for delivery in good for sooner, later in pairwise(delivery.arrivals)]
    lasted = max(delivery.ended for delivery in engine.deliveries) - min(
        delivery.submitted for delivery in engine.deliveries
    )
    assert found.requests == len(good)
    assert found.failed == len(engine.deliveries) - len(good)
    assert found.duration_s == about(lasted, 0.002)
    assert found.request_throughput == about(len(good) / lasted, 0.0)
    assert found.audio_s == about(sum(audio), 0.0)
    assert found.audio_throughput == about(sum(audio) / lasted, 0.0)
    assert found.frames == sum(frames for delivery in good for _, frames in delivery.arrivals)
    assert found.ttfp_ms == about(spread_of(firsts))
    assert found.e2el_ms == about(spread_of(wholes))
    assert found.audible_ms == about(spread_of([audible(delivery) for delivery in good]))
    ratios = [whole / 1000 / seconds for whole, seconds in zip(wholes, audio, strict=True)]
    assert found.rtf == about(spread_of(ratios), 0.002)
    assert found.gap_ms_max == about(max(gaps, default=0.0))
    assert found.underruns == sum(played_dry(delivery) for delivery in good)
    assert found.most_in_flight == engine.most_at_once
    assert found.client_queue_ms["p99"] is not None
    assert len(run.results) == len(engine.deliveries)


def test_every_figure_of_a_closed_loop_is_right(clock: Clock) -> None:
    engine = fake_engine(
        script((0.050, 2), (0.100, 4), (0.200, 8)),
        script((0.120, 1, 1920), (0.150, 2, 960), (0.700, 4)),  # silence at the onset, a gap that is audible
        script((0.030, 3), (0.400, 3), (0.900, 3)),  # runs dry twice
        script((0.080, 2), failure="the numbers are not finite"),
        script((0.060, 6), end_s=0.110),  # the last chunk is empty
    )
    clock.runs = lambda: len(engine.deliveries) >= 4  # this thread sends the first four, the engine's thread the others
    with EngineTarget(engine) as target:
        run = closed_loop(target, works(), 4, Extent(15))
    found = level(run, concurrency=4)
    matches(found, engine, run)
    assert found.failures == {"the numbers are not finite": 3}
    assert found.underruns == 3 * (1 + 2)
    assert engine.most_at_once == 4


@pytest.mark.parametrize("on_time", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_open_loop_sends_what_arrives(on_time: bool) -> None:
    """In real time: on a quiet machine, every figure is right."""
    engine = fake_engine(script((0.040, 2), (0.090, 6)), script((0.070, 1, 400), (0.100, 2)))
    with EngineTarget(engine) as target:
        run = open_loop(target, works(), arrivals(40, seed=3), Extent(20))
    wanted = [result.wanted - run.began for result in sorted(run.results, key=lambda result: result.wanted)]
    offsets = arrivals(40, seed=3)
    assert wanted == pytest.approx([next(offsets) for _ in range(20)])
    found = level(run, rate=40)
    assert (found.requests, found.failed, found.frames) == (20, 0, 10 * 8 + 10 * 3)
    assert found.most_in_flight == engine.most_at_once
    if on_time:
        matches(found, engine, run)


@pytest.mark.parametrize(
    ("end", "packets", "fields", "failure"),
    [
        ({"stopped": "end"}, [], {}, "no audio"),
        ({"stopped": "end"}, [(0.01, 1, 0, True)], {}, "samples that are not finite"),
        ({"stopped": "limit"}, [(0.01, 9)], {"max_frames": 10, "ignore_end": True}, "9 frames instead of 10"),
        ({"stopped": "cancelled"}, [(0.01, 1)], {}, "cancelled"),
        ({"failure": "out of room"}, [(0.01, 1)], {}, "out of room"),
    ],
)
def test_what_is_not_whole_is_a_failure(end: Any, packets: Any, fields: Any, failure: str) -> None:
    engine = fake_engine(script(*packets, **end))
    with EngineTarget(engine) as target:
        run = closed_loop(target, works(**fields), 2, Extent(4))
    found = level(run, concurrency=2)
    assert found.failures == {failure: 4}
    assert (found.requests, found.failed, found.audio_s) == (0, 4, 0)
    assert found.rtf == dict.fromkeys(("mean", "median", "p90", "p95", "p99"))


def test_guard_hits_are_counted_but_a_fixed_length_is_none() -> None:
    engine = fake_engine(script((0.01, 4), stopped="limit"), script((0.01, 4), stopped="stall"), script((0.01, 4)))
    with EngineTarget(engine) as target:
        free = level(closed_loop(target, works(), 1, Extent(3)))
        fixed = level(closed_loop(target, works(max_frames=4, ignore_end=True), 1, Extent(3)))
    assert (free.guard_hits, free.failed) == (2, 0)
    assert fixed.failed == 0
    assert fixed.guard_hits == 0


def test_a_silent_result_is_no_fast_one() -> None:
    engine = fake_engine(script((0.01, 1, 1920)))
    with EngineTarget(engine) as target:
        found = level(closed_loop(target, works(), 1, Extent(2)))
    assert (found.silent, found.requests) == (2, 2)
    assert found.audible_ms["median"] is None


def test_a_clip_that_is_encoded_anew_is_inside_the_measured_time(clock: Clock) -> None:
    engine = fake_engine(script((0.02, 2)))
    threads = set()

    def encode() -> Cloned:
        threads.add(threading.get_ident())
        clock.sleep(0.1)
        return Cloned(np.zeros(3, np.float32))

    with EngineTarget(engine) as target:
        run = closed_loop(target, iter([Work(Request("hello"), encode)] * 3), 1, Extent(3))
    found = level(run)
    assert found.failed == 0
    assert found.ttfp_ms["median"] == about(120)
    assert all(isinstance(request.voice, Cloned) for request in engine.requests)
    assert threading.get_ident() not in threads


def test_a_clip_that_cannot_be_encoded_fails_its_own_request() -> None:
    engine = fake_engine(script((0.01, 2)))

    def encode() -> Cloned:
        raise ValueError("no such sound")

    mixed = iter([Work(Request("hello"), encode), next(works())])
    with EngineTarget(engine) as target:
        found = level(closed_loop(target, mixed, 1, Extent(2)))
    assert found.failures == {"ValueError: no such sound": 1}
    assert found.requests == 1


def test_an_engine_that_breaks_is_raised_where_one_waits() -> None:
    engine = fake_engine(script((0.01, 2)))
    step: Callable[[], Any] = engine.step

    def breaking() -> Any:
        if len(engine.deliveries) > 3:
            raise RuntimeError("the device is lost")
        return step()

    engine.step = breaking
    with pytest.raises(RuntimeError, match="the device is lost"), EngineTarget(engine) as target:
        closed_loop(target, works(), 2, Extent(duration_s=60))


def test_an_interrupted_load_sends_nothing_more() -> None:
    engine = fake_engine(script((0.05, 2)))
    step: Callable[[], Any] = engine.step

    def interrupting() -> Any:
        if len(engine.deliveries) == 6:
            engine.step = step
            _thread.interrupt_main()
        return step()

    engine.step = interrupting
    with pytest.raises(KeyboardInterrupt), EngineTarget(engine) as target:
        closed_loop(target, works(), 2, Extent(duration_s=600))
    sent = len(engine.deliveries)
    time.sleep(0.2)
    assert len(engine.deliveries) == sent >= 6
    assert not engine.busy


def test_leaving_early_cancels_what_is_under_way() -> None:
    engine = fake_engine(script((30.0, 2)))
    ended = []
    with EngineTarget(engine) as target:
        target.send(Work(Request("hello")), time.perf_counter(), ended.append)
    assert [result.failure for result in ended] == ["cancelled"]
