"""Progress: a bar that fits, plain lines without escapes, JSON for programs."""

import json

import pytest

from omnitts_cli.terminal.console import cell_width, console
from omnitts_cli.terminal.progress import Progress, duration, estimate, style


@pytest.fixture(autouse=True)
def fresh_console() -> None:
    console.reset()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_off_a_terminal_there_is_a_plain_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = Progress("speaking", "auto", clock)
    for clock.now in (1.0, 9.0, 10.0, 11.0, 20.5):
        progress.update(0.5, "audio 0:10")
    err = capsys.readouterr().err
    assert err == "speaking 50% audio 0:10\n" * 2


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("title", ["speaking", "第一章 👍"])
def test_a_bar_fits_its_terminal(monkeypatch: pytest.MonkeyPatch, title: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    progress = Progress(title, "none")
    for share in (None, 0.0, 0.5, 1.0):
        assert cell_width(progress._line(share, "audio 3:41  12.4× realtime  RTF 0.081  eta 0:09")) < width


def test_a_bar_is_drawn_and_taken_away(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(console, "animates", lambda: True)
    with Progress("speaking", "auto") as progress:
        progress.update(0.25, "words")
    err = capsys.readouterr().err
    assert " 25% words" in err and err.endswith("\r\033[K")


def test_json_is_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = Progress("speaking", "json", clock)
    clock.now = 1.0
    progress.update(0.5, "words", audio_s=1.5)
    assert json.loads(capsys.readouterr().err) == {
        "event": "progress", "title": "speaking", "share": 0.5, "audio_s": 1.5,
    }  # fmt: skip


def test_numbers_are_for_people_and_quiet_has_no_progress() -> None:
    console.quiet = True
    assert style("auto") == style("bar") == style("plain") == "none"
    assert style("json") == "json"
    assert [estimate(seconds) for seconds in (0.2, 64.6)] == ["about 0:01", "about 1:05"]
    assert [duration(s) for s in (0, 59.6, 65, 3723)] == ["0:00", "1:00", "1:05", "1:02:03"]
