"""Gauge: what adds up and what stays unknown."""

from omnitts_cli.bench.target import Gauge


def test_runs_of_one_level_add_up() -> None:
    whole = Gauge()
    whole.add(Gauge(10, 2, 100))
    whole.add(Gauge(30, 2, 90))
    assert whole == Gauge(40, 4, 100)
    assert whole.syncs_per_frame == 0.1


def test_what_was_not_counted_is_null_and_not_zero() -> None:
    assert Gauge(10, None).syncs_per_frame is Gauge(0, 0).syncs_per_frame is None
    assert Gauge(10, 0).syncs_per_frame == 0.0
