"""Lines are JSON, and the rate rises, falls and ends with the time."""

import json
import time
from pathlib import Path

import pytest

from omnitts_cli.tuning.journal import Budget, Journal, falling_rate


def test_a_line_is_json(tmp_path: Path) -> None:
    Journal(tmp_path / "deep" / "curves.jsonl", "codec", echo=False).write(step=3, mel=0.123456)
    line = json.loads((tmp_path / "deep" / "curves.jsonl").read_text())
    assert line["stage"] == "codec" and line["step"] == 3 and line["mel"] == 0.1235


def test_a_line_that_was_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    path = tmp_path / "curves.jsonl"
    path.write_text('{"stage": "codec"}\n{"stage": "co')
    for _ in range(2):
        Journal(path, "codec", echo=False).write(step=1)
    lines = path.read_text().splitlines()
    assert lines[1] == '{"stage": "co' and [json.loads(line)["step"] for line in lines[2:]] == [1, 1]


def test_the_rate_follows_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert falling_rate(0.0, 1.0, 0.1, 0, 10) < 0.11 < 0.9 < falling_rate(0.0, 1.0, 0.1, 100, 10)
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    short = Budget(1.0)
    now[0] += 90.0  # compiling
    assert short.spent == 0.0
    now[0] += 15.0
    assert short.spent == 0.25
    now[0] += 60.0
    assert short.spent == 1.0
    assert abs(falling_rate(short.spent, 1.0, 0.1, 100, 10) - 0.1) < 1e-6
