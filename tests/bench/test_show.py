"""Show: every figure is in every form, and the forms hold together."""

import csv
import io
from dataclasses import replace

from bench_kit import a_level, a_report

from omnitts_cli.bench import show
from omnitts_cli.bench.compare import compare
from omnitts_cli.bench.report import ratios


def test_a_block_has_every_figure_in_lines_of_one_width() -> None:
    level = a_level(
        failed=2, failures={"HTTP 503": 2}, ttfp_ms=31.25, rtf=0.1234, peak_memory_bytes=3 << 30,
        host_syncs_per_frame=0.0, goodput=0.875, guard_hits=1,
    )  # fmt: skip
    lines = list(show.block(level))
    assert {len(line) for line in lines} == {58}
    values = {line[:40].strip(": "): line[40:].strip() for line in lines if ":" in line[:40]}
    assert values["Successful requests"] == "16"
    assert values["Failed requests"] == "2"
    assert values["HTTP 503"] == "2"
    assert values["Median TTFP (ms)"] == "31.25"
    assert values["P99 RTF"] == "0.1234"
    assert values["Audio throughput (audio-s/s)"] == "20.00"
    assert values["Peak memory so far (GiB)"] == "3.00"
    assert values["Host synchronisations per frame"] == "0.0000"
    assert values["Goodput (share within limits)"] == "0.88"
    assert values["Guard hits"] == "1"


def test_what_was_not_measured_is_a_dash_not_a_zero() -> None:
    level = a_level()
    level.audible_ms = dict.fromkeys(level.audible_ms)
    lines = "\n".join(show.block(level))
    assert "Median audible (ms):                                     -" in lines
    assert "Host synchronisations per frame:                         -" in lines


def test_the_table_ends_with_what_the_words_mean() -> None:
    assert show.table(a_report()).endswith("\n".join(show.VOCABULARY))
    assert "less is better" in show.table(a_report())


def test_markdown_has_a_row_per_level_under_one_head() -> None:
    rows = [line for line in show.markdown(a_report()).splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 2
    assert {row.count("|") for row in rows} == {len(show.HEAD) + 1}
    assert "| c4 | 0 of 16 | 900 / 900 / 900 |" in rows[3]


def test_the_csv_has_one_row_per_level_and_plain_numbers() -> None:
    levels = [a_level(concurrency=1, failures={"no audio": 3}), a_level(concurrency=4)]
    text = show.comma_separated(replace(a_report(), levels=levels))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["concurrency"] for row in rows] == ["1", "4"]
    assert float(rows[1]["rtf_median"]) == 0.2
    assert rows[0]["failures"] == "no audio x3"
    assert rows[0]["model"] == "random:toy"


def test_ratios_are_put_in_words() -> None:
    levels = [a_level(), a_level(variant="eager", rtf=0.5)]
    report = replace(a_report(), levels=levels, ratios=ratios(levels))
    assert "eager against this, c4: RTF 2.50 x, E2EL 1.00 x" in show.table(report)
    assert "eager against this, c4: RTF 2.50 x" in show.markdown(report)


def test_a_comparison_marks_what_is_worse() -> None:
    now = replace(a_report(), device="other", levels=[a_level(rtf=0.3, ttfp_ms=20.0)])
    text = show.comparison(compare(now, a_report(), 5.0), 5.0)
    assert "c4    RTF         0.2   0.3  +50.0 % worse" in text
    assert "-33.3 % better" in text
    assert text.endswith("differs: device was cpu, a processor, is other")


def test_a_level_in_one_line() -> None:
    expected = "c4: 16 requests, 1 failed, 20.00 audio-s/s, RTF 0.200, TTFP 30.0 ms"
    assert show.one_line(a_level(failed=1)) == expected
