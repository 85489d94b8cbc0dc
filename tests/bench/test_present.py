"""What bench shows while it measures."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from omnitts_cli.bench import present
from omnitts_cli.bench.present import Watcher
from omnitts_cli.terminal.console import console


@pytest.mark.parametrize("wanted", ["auto", "plain", "json", "none"])
def test_the_requests_are_counted_in_each_form(
    wanted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console.reset()
    monkeypatch.setattr(console, "animates", lambda: True)
    monkeypatch.setattr(present, "one_line", lambda level: "c 1: RTF 0.1")
    job: Any = SimpleNamespace(shape=SimpleNamespace(planned=lambda: 4), versus=None)
    with Watcher(job, wanted) as watcher:
        watcher.known(cast("Any", None))
        watcher.ended(cast("Any", SimpleNamespace(failure=None)))
    said = capsys.readouterr().err
    if wanted == "json":
        assert json.loads(said) == {"event": "progress", "done": 1, "of": 4, "failure": None}
    elif wanted == "auto":
        assert "25%" in said and "RTF 0.1" in said and said.endswith("\r\033[K")
    else:
        assert said == ("c 1: RTF 0.1\n" if wanted == "plain" else "")
