"""Level and its parts: what test_local.py does not compare with the notes of a fake engine."""

import numpy as np
import pytest

from omnitts_cli.bench.load import Run
from omnitts_cli.bench.meter import RequestMeter
from omnitts_cli.bench.record import Result, Work
from omnitts_cli.bench.stats import goodput, level, spread
from omnitts_cli.request import Request


def result(first_s: float, whole_s: float, audio_s: float, failure: str | None = None) -> Result:
    one = Result(Work(Request("hello")), 10.0, RequestMeter(1000, 10.0), frames=3)
    one.add(np.ones(round(audio_s * 500), np.float32), 10.0 + first_s)
    one.add(np.ones(round(audio_s * 500), np.float32), 10.0 + whole_s)
    one.end(10.0 + whole_s, "end", failure)
    return one


def test_a_spread_has_every_rank_once() -> None:
    assert list(spread([1.0], (50, 95, 99.9))) == ["mean", "median", "p90", "p95", "p99", "p99.9"]


def test_a_stream_is_late_once_its_player_has_run_dry() -> None:
    """After its first packet, of 1 s and of 0.5 s, a player waits for 0.9 s and for 1.7 s."""
    found = level(Run(10.0, 14.0, [result(0.1, 1.0, 2.0), result(0.3, 2.0, 1.0)]))
    assert (found.late, found.underruns) == (1, 1)


def test_the_sound_of_a_load_that_begins_apart_is_that_of_its_middle() -> None:
    found = level(Run(10.0, 14.0, [result(0.1, 1.0, 2.0)], heard_s=10.0))
    assert (found.audio_s, found.audio_throughput) == (10.0, 2.5)


def test_frames_unknown_to_one_request_are_unknown_to_the_level() -> None:
    one = result(0.1, 1.0, 2.0)
    one.frames = None
    assert level(Run(10.0, 14.0, [one, result(0.1, 1.0, 2.0)])).frames is None


def test_goodput_counts_failures_as_missed() -> None:
    run = [result(0.1, 1.0, 2.0), result(0.3, 2.0, 1.0), result(0.1, 1.0, 2.0, "HTTP 500")]
    assert goodput(run, {"ttfp": 200}) == pytest.approx(1 / 3)
    assert goodput(run, {"ttfp": 400}) == pytest.approx(2 / 3)
    assert goodput(run, {"ttfp": 400, "rtf": 1.0}) == pytest.approx(1 / 3)
    assert goodput([], {"rtf": 1.0}) == 0.0


def test_a_run_of_nothing_divides_by_nothing() -> None:
    found = level(Run(0.0))
    assert (found.request_throughput, found.audio_throughput, found.gap_ms_max) == (0.0, 0.0, 0.0)
