"""The journal as a picture: stretches of a stage stand behind each other."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from omnitts_cli.errors import OmniError
from omnitts_cli.training.picture import curves, draw

LINES = (
    {"stage": "codec", "seconds": 1.0, "event": "start"},
    {"stage": "codec", "seconds": 60.0, "step": 500, "mel": 2.0, "phones": 3.0},
    {"stage": "speech", "seconds": 30.0, "step": 500, "first": 4.0, "held_first": 5.0},
    {"stage": "codec", "seconds": 2.0, "event": "phase", "step": 0},
    {"stage": "codec", "seconds": 90.0, "step": 500, "mel": 1.0, "phones": 2.0},
    {"stage": "judge", "seconds": 1.0, "weights": {}},
)


def journal(folder: Path, lines: tuple[dict[str, object], ...] = LINES) -> Path:
    path = folder / "curves.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_later_stretch_goes_on_and_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    found = curves(journal(tmp_path))
    assert [(line["minutes"], line["mel"]) for line in found["codec"]] == [(1.0, 2.0), (2.5, 1.0)]
    assert [line["minutes"] for line in found["speech"]] == [0.5] and found["polish"] == []
    path = journal(tmp_path)
    whole = curves(path)
    with path.open("a") as file:
        file.write('{"stage": "codec", "seconds": 120.0, "st')  # the process was killed here
    assert curves(path) == whole
    with path.open("a") as file:
        file.write('{"stage": "speech"}\n7\n')  # and one from before a file closed its lines
    assert curves(path) == whole


def test_a_journal_that_is_missing_or_has_no_losses_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OmniError, match=r"curves\.jsonl cannot be read"):
        curves(tmp_path / "curves.jsonl")
    with pytest.raises(OmniError, match="no losses"):
        draw(journal(tmp_path, LINES[:1]), tmp_path / "curves.svg")


def test_each_stage_has_a_panel_with_its_curves(tmp_path: Path) -> None:
    draw(journal(tmp_path), tmp_path / "curves.svg")
    panels = [one for one in ElementTree.parse(tmp_path / "curves.svg").getroot() if one.tag.endswith("}g")]
    lines = [[one.get("points", "").split() for one in panel if one.tag.endswith("polyline")] for panel in panels]
    assert [[len(points) for points in panel] for panel in lines] == [[2, 2], [1, 1]]
