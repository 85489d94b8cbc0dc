"""Report: written and read back, of every schema version, and what is no report."""

import errno
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from bench_kit import a_level, a_report

from omnitts_cli.bench import report as reports
from omnitts_cli.bench.report import SCHEMA, Report, ratios, rounded
from omnitts_cli.bench.stats import LoadLevel
from omnitts_cli.errors import InputError, OutputError

PUBLISHED = sorted((Path(__file__).parents[2] / "benchmarks" / "published").glob("*.json"))
ROOT = Path(__file__).parent.parent.parent
KEPT = [ROOT / "benchmarks" / "results" / f"bench-1.7b-{name}.json" for name in ("customvoice", "voicedesign", "base")]

TOP = ["schema", "created", "command", "model", "model_sha256", "device", "dtype", "versions", "seed", "workload"]
ROW = ["requests", "failed", "duration_s", "request_throughput", "audio_s", "audio_throughput", "frames", "e2el_ms"]
ROW += ["ttfp_ms", "audible_ms", "rtf", "underruns", "gap_ms_max", "guard_hits", "host_syncs_per_frame"]
ROW += ["peak_memory_bytes"]


def test_a_report_reads_back_as_it_was(tmp_path: Path) -> None:
    reports.save(tmp_path / "new.json", a_report())
    assert asdict(reports.read(tmp_path / "new.json")) == asdict(a_report())


def test_the_names_are_those_of_the_documentation() -> None:
    table = a_report().to_json()
    assert [name for name in TOP if name not in table] == []
    for row in table["levels"]:
        assert [name for name in ROW if name not in row] == []
        assert row["concurrency"] is not None or row["rate"] is not None
        for name in ("e2el_ms", "ttfp_ms", "audible_ms", "rtf"):
            assert {"mean", "median", "p90", "p99"} <= set(row[name])


def test_lines_are_appended_and_the_last_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    reports.save(path, a_report(), append=True)
    reports.save(path, replace(a_report(), seed=9), append=True)
    assert len(path.read_text().splitlines()) == 2
    assert reports.read(path).seed == 9


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_the_published_tables_of_the_field_are_read(path: Path) -> None:
    report = reports.read(path)
    assert report.levels
    assert all((level.concurrency is None) != (level.rate is None) for level in report.levels)
    assert rounded(asdict(report)) == asdict(report)


def test_there_are_published_tables_of_every_schema() -> None:
    assert {json.loads(path.read_text())["schema"] for path in PUBLISHED} == {SCHEMA}


def test_numbers_that_are_none_become_null() -> None:
    assert rounded({"a": float("nan"), "b": [float("inf"), 1.23456789]}) == {"a": None, "b": [None, 1.23457]}


@pytest.mark.parametrize(("content", "words"), [
    ("", "not a JSON file"), ("[1]", "not a JSON file"), ("{}", "schema None"), ('{"schema": 99}', "schema 99"),
    ('{"schema": "1"}', "schema '1'"), ('{"schema": 1}', "not a complete report"),
    ('{"schema": 1, "levels": [{}]}', "not a complete report"),
    ('{"schema": 1, "levels": {"a": 1}}', "not a complete report"),
])  # fmt: skip
def test_what_is_no_report_is_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        reports.read(path)


def test_a_row_with_a_number_for_a_spread_is_refused(tmp_path: Path) -> None:
    table = a_report().to_json()
    table["levels"][0]["rtf"] = 0.5
    path = tmp_path / "old.json"
    path.write_text(json.dumps(table))
    with pytest.raises(InputError, match="not a complete report"):
        reports.read(path)


def test_places_that_cannot_be_used_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        reports.read(tmp_path / "none.json")
    with pytest.raises(InputError, match="not a JSON file"):
        (tmp_path / "bin").write_bytes(b"\xff\xfe")
        reports.read(tmp_path / "bin")
    for append in (False, True):
        with pytest.raises(OutputError, match="cannot"):
            reports.save(tmp_path / "no" / "folder.json", a_report(), append=append)


def test_a_full_disk_keeps_the_older_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.json"
    path.write_text("older")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("omnitts_cli.audio.target.os.fsync", full)
    with pytest.raises(OutputError, match="no space left"):
        reports.save(path, a_report())
    assert path.read_text() == "older" and list(tmp_path.iterdir()) == [path]


def test_ratios_say_how_much_longer_the_other_takes() -> None:
    main: LoadLevel = a_level(concurrency=4, rtf=0.1, audio_throughput=40.0)
    slow = a_level(concurrency=4, rtf=0.3, audio_throughput=10.0, variant="eager")
    found = ratios([main, slow, a_level(concurrency=1)])
    assert len(found) == 1
    assert found[0] | {"rtf": None} == {
        "variant": "eager", "concurrency": 4, "rate": None, "rtf": None, "e2el": 1.0, "ttfp": 1.0,
        "seconds_per_audio_s": 4.0,
    }  # fmt: skip
    assert found[0]["rtf"] == pytest.approx(3.0)


def rows_of(streams: int, found: list[Report]) -> list[str]:
    """The lines of a number of streams in the table of `help speed`: one for each kind of voice."""
    rows = []
    for report, voice in zip(found, ("named", "described", "clone"), strict=True):
        level = next(one for one in report.levels if (one.concurrency, one.variant) == (streams, None))
        ratio = next(one for one in report.ratios if one["concurrency"] == streams)
        figures = [f"{level.rtf['median']:.3f}", f"{level.audio_throughput:.0f}"]
        figures += [f"{level.ttfp_ms[which]:.0f}" for which in ("median", "p99")]
        first = "" if rows else streams
        rows.append(f"| {first} | {voice} | {' | '.join(figures)} | {ratio['seconds_per_audio_s']:.1f} |")
    return rows


def test_the_table_of_the_help_page_says_what_was_measured() -> None:
    found = [reports.read(path) for path in KEPT]
    page = (ROOT / "omnitts_cli" / "help" / "speed.md").read_text("utf-8").splitlines()
    assert [report.workload["mode"] for report in found] == ["voice", "design", "clone"]
    assert {(report.device, report.dtype, report.workload["frames"]) for report in found} == {
        ("cuda:0, NVIDIA H200", "bfloat16", 50)
    }
    for streams in (1, 4, 8, 10, 16, 32, 64):
        rows = rows_of(streams, found)
        at = page.index(rows[0])
        assert page[at : at + len(rows)] == rows
    assert all(level.failed == 0 for report in found for level in report.levels)
