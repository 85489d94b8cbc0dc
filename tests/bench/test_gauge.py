"""Gauge: what adds up and what stays unknown."""

from __future__ import annotations

from omnitts_cli.bench.gauge import Gauge


def test_runs_of_one_level_add_up() -> None:
    whole = Gauge()
    whole.add(Gauge(10, 2, 100))
    whole.add(Gauge(30, 2, 90))
    assert whole == Gauge(40, 4, 100)
    assert whole.syncs_per_frame == 0.1


def test_what_nobody_counted_is_null() -> None:
    whole = Gauge()
    whole.add(Gauge(10, None, None))
    assert whole.syncs_per_frame is None
    assert whole.peak_bytes is None
    assert Gauge(0, 0).syncs_per_frame is None


def test_none_is_zero_when_it_was_counted() -> None:
    assert Gauge(10, 0).syncs_per_frame == 0.0
