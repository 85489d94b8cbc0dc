"""Plot: in letters always, as a picture where matplotlib is, with a plain word where it is not."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench_kit import a_level, a_report

from omnitts_cli.bench import plot
from omnitts_cli.errors import OutputError, UsageError


def test_bars_are_as_long_as_the_numbers() -> None:
    levels = [a_level(concurrency=1, audio_throughput=10.0), a_level(concurrency=10, audio_throughput=40.0)]
    lines = plot.in_letters(replace(a_report(), levels=levels)).splitlines()
    assert lines[0] == "audio-s/s"
    assert lines[1] == " c1 " + "█" * 10 + " 10"
    assert lines[2] == "c10 " + "█" * 40 + " 40"


def test_what_was_not_measured_has_no_bar() -> None:
    level = a_level()
    level.ttfp_ms = {"median": None}
    assert "c4 -" in plot.in_letters(replace(a_report(), levels=[level]))


def test_without_matplotlib_it_fails_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"out\.png needs matplotlib") as caught:
        plot.check("out.png")
    assert "pip install matplotlib" in str(caught.value.hint)
    plot.check("-")


def test_a_picture_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    eager = a_level(variant="eager")
    eager.ttfp_ms = dict.fromkeys(eager.ttfp_ms)
    report = replace(a_report(), levels=[*a_report().levels, eager])
    plot.check(str(tmp_path / "out.png"))
    plot.draw(report, tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    plot.draw(replace(a_report(), levels=[a_level(concurrency=None, rate=2.0)]), tmp_path / "out.svg")
    assert b"<svg" in (tmp_path / "out.svg").read_bytes()
    with pytest.raises(OutputError, match="its folder does not exist"):
        plot.draw(a_report(), tmp_path / "none" / "out.png")
