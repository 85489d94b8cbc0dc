"""The folder of a run: its curves are drawn, and it is removed without what is not of the run."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from omnitts_cli.errors import InputError, OmniError
from omnitts_cli.fleet.disk import Lock
from omnitts_cli.tuning.folder import CURVES, PICTURE, check_own, draw, points, read_curves, removed, runs, write_events
from omnitts_cli.tuning.run import tune

LINES = [
    {"epoch": 0, "held": 5.0}, {"step": 1, "first": 4.0, "rest": 5.0}, {"step": 2, "first": 3.0, "rest": 5.0},
    {"epoch": 1, "held": 4.5}, {"epoch": 1, "likeness": 0.5}, {"step": 2, "first": 3.1, "rest": 5.0},
    {"step": 3, "first": 2.0, "rest": 4.0}, {"epoch": 2, "held": 4.0},
]  # fmt: skip


def journal(folder: Path, lines: list[dict[str, float]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CURVES).write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 4, "fi')


def test_both_curves_are_drawn(tmp_path: Path) -> None:
    journal(tmp_path, LINES)
    assert read_curves(tmp_path / CURVES) == LINES
    steps, held = points(LINES)
    assert [step for step, _ in steps] == [1, 2, 3] and steps[1][1] == pytest.approx(4.6)  # made twice: the last
    assert held == [(0.0, 5.0), (2.0, 4.5), (3.0, 4.0)]
    draw(tmp_path)
    drawing = ElementTree.parse(tmp_path / PICTURE).getroot()
    lines = [one.get("points", "").split() for one in drawing.iter() if one.tag.endswith("polyline")]
    assert [len(one) for one in lines] == [3, 3]
    assert len([one for one in drawing.iter() if one.tag.endswith("circle")]) == 6
    heights = [float(one.split(",")[1]) for one in lines[1]]
    assert heights == sorted(heights)  # a falling loss is drawn downwards


def test_tensorboard_reads_both_curves(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    journal(tmp_path, LINES)
    for _ in range(2):
        write_events(tmp_path)
    found = reader.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    curves = {name: [(one.step, one.value) for one in found.Scalars(name)] for name in found.Tags()["scalars"]}
    assert curves["loss/held-out"] == [(0, 5.0), (2, 4.5), (3, 4.0)] and len(curves["loss/steps"]) == 3


def test_without_curves_nothing_is_drawn(tmp_path: Path) -> None:
    draw(tmp_path)
    journal(tmp_path, LINES[:1])
    draw(tmp_path)
    assert not (tmp_path / PICTURE).exists()


def test_a_run_is_removed_and_other_files_stay(tmp_path: Path) -> None:
    for folder in (tmp_path / "run", runs() / "anna"):
        journal(folder, LINES)
        for name in ("prepared", "samples", "epochs"):
            (folder / name).mkdir()
            (folder / name / "x").touch()
        (folder / "state.0.safetensors").touch()
    (tmp_path / "run" / "mine.txt").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    (tmp_path / "run" / "unpacked").symlink_to(tmp_path / "elsewhere")
    assert removed(str(tmp_path / "run")) == tmp_path / "run" and (tmp_path / "elsewhere" / "kept").exists()
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"mine.txt", "unpacked"}
    assert removed("anna") == runs() / "anna" and not (runs() / "anna").exists()


def test_what_is_no_run_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "model").mkdir()
    for place in (str(tmp_path / "photos"), "nobody"):
        with pytest.raises(InputError):
            removed(place)
    with pytest.raises(OmniError):
        removed("../../x")
    journal(tmp_path / "busy", LINES)
    lock = Lock(tmp_path / "busy", "busy")
    with pytest.raises(OmniError):
        removed(str(tmp_path / "busy"))
    lock.release()
    assert (tmp_path / "busy" / CURVES).exists() and (tmp_path / "photos" / "model").exists()


def test_a_run_takes_no_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(InputError):
        tune(tmp_path, "anna", consent="anna", folder=tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
    check_own(tmp_path / "new")
    (tmp_path / "killed").mkdir()
    Lock(tmp_path / "killed", "killed").release()  # by a run that had kept nothing yet
    check_own(tmp_path / "killed")
    (tmp_path / CURVES).touch()  # now it is a run's
    check_own(tmp_path)
