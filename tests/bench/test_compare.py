"""Compare: what is worse, what is only different, and the published tables as old files."""

from dataclasses import replace
from pathlib import Path

import pytest
from bench_kit import a_level, a_report

from omnitts_cli.bench import report as reports
from omnitts_cli.bench.compare import compare, named
from omnitts_cli.errors import InputError

PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "published"


def test_the_same_is_not_worse() -> None:
    found = compare(a_report(), a_report(), 0.0)
    assert found.regressions == found.differences == []
    assert len(found.changes) == 2 * 6
    assert all(change.percent == 0 for change in found.changes)


@pytest.mark.parametrize(("field", "value", "worse"), [
    ("rtf", 0.22, True), ("rtf", 0.18, False), ("ttfp_ms", 33.0, True), ("e2el_ms", 800.0, False),
    ("audio_throughput", 18.0, True), ("audio_throughput", 22.0, False), ("request_throughput", 3.5, True),
])  # fmt: skip
def test_less_is_better_or_more_is(field: str, value: float, worse: bool) -> None:
    now = replace(a_report(), levels=[a_level(concurrency=4, **{field: value})])
    assert bool(compare(now, a_report(), 5.0).regressions) == worse
    assert compare(now, a_report(), 15.0).regressions == []


def test_more_failures_are_worse_whatever_the_tolerance() -> None:
    now = replace(a_report(), levels=[a_level(concurrency=4, failed=1)])
    assert compare(now, a_report(), 1000.0).regressions == ["c4: 1 requests failed, then 0"]


def test_the_worst_comes_first() -> None:
    now = replace(a_report(), levels=[a_level(concurrency=4, failed=2, audio_throughput=18.0, ttfp_ms=60.0)])
    assert compare(now, a_report(), 5.0).regressions == [
        "c4: 2 requests failed, then 0",
        "c4: TTFP ms 30 -> 60 (+100.0 %)",
        "c4: audio-s/s 20 -> 18 (-10.0 %)",
    ]


def test_levels_that_only_one_has_are_left_out() -> None:
    now = replace(a_report(), levels=[a_level(concurrency=4), a_level(concurrency=64, rtf=99.0)])
    assert {change.level for change in compare(now, a_report(), 5.0).changes} == {"c4"}


def test_nothing_in_common_is_an_error() -> None:
    now = replace(a_report(), levels=[a_level(concurrency=None, rate=2.0)])
    with pytest.raises(InputError, match="the old report has c1, c4") as caught:
        compare(now, a_report(), 5.0)
    assert caught.value.cause == "this one has 2/s"


def test_other_circumstances_are_named() -> None:
    now = replace(a_report(), device="cuda:0, a card", workload={"loop": "closed", "texts": 4})
    assert compare(now, a_report(), 5.0).differences == [
        "device was cpu, a processor, is cuda:0, a card",
        "texts of the workload was 3, is 4",
    ]


def test_variants_are_compared_with_their_own_kind() -> None:
    before = replace(a_report(), levels=[a_level(), a_level(variant="eager", rtf=0.9)])
    now = replace(a_report(), levels=[a_level(), a_level(variant="eager", rtf=0.9)])
    found = compare(now, before, 5.0)
    assert {change.level for change in found.changes} == {"c4", "c4 eager"}
    assert found.regressions == []


def test_a_published_step_forward_is_no_regression_and_back_is_one() -> None:
    """Ascend's captured predictor against the eager one, as published: RTF 3.123 -> 1.540 at one stream."""
    eager = reports.read(PUBLISHED / "vllm-omni-2695-base-eager.json")
    captured = reports.read(PUBLISHED / "vllm-omni-2695-base.json")
    assert compare(captured, eager, 5.0).regressions == []
    back = compare(eager, captured, 5.0).regressions
    assert "c1: RTF 1.54 -> 3.123 (+102.8 %)" in back


def test_ours_can_be_held_against_the_published_tables() -> None:
    table = reports.read(PUBLISHED / "vllm-omni-1852.json")
    now = replace(a_report(), levels=[a_level(concurrency=16, rtf=0.1, audio_throughput=300.0, ttfp_ms=20.0)])
    found = compare(now, table, 5.0)
    changes = {change.figure: change for change in found.changes}
    assert changes["RTF"].before == 0.378
    assert changes["audio-s/s"].percent == pytest.approx(614.5, abs=0.1)
    assert "audible ms" not in changes  # nobody published it
    assert found.regressions == ["c16: req/s 6.56 -> 4 (-39.0 %)"]


def test_names_of_levels() -> None:
    assert named(a_level(concurrency=8)) == "c8"
    assert named(a_level(concurrency=None, rate=0.5, variant="cpu")) == "0.5/s cpu"
