"""Systems side by side: what the table says, and that the page is drawn."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from omnitts_cli.bench.evaluate import sentences
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import InputError
from omnitts_cli.training import compare
from omnitts_cli.training.__main__ import Rebuild
from omnitts_cli.training.compare import System, markdown, measure, systems
from omnitts_cli.training.judge import spoken_texts
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import SAMPLE_RATE
from omnitts_cli.training.team import Team


class Ears:
    """Understands loud sounds, finds long ones natural, and tells voices apart by the sign of their first sample."""

    def __init__(self) -> None:
        self.left = iter(spoken_texts())

    def transcribe(self, sound: np.ndarray) -> str:
        text = next(self.left)
        return text if np.abs(sound).max() > 0.1 else ""

    def naturalness(self, sound: np.ndarray) -> float:
        return len(sound) / SAMPLE_RATE

    def voice(self, sound: np.ndarray) -> np.ndarray:
        return np.array([np.sign(sound[0]), 0.0])


def hum(hertz: float, seconds: float = 1.0, level: float = 0.3) -> np.ndarray:
    return (level * np.cos(2 * np.pi * hertz * np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE)).astype(
        np.float32
    )


def test_the_table_has_what_was_measured() -> None:
    count, harvard = len(spoken_texts()), len(sentences())
    teacher = System("teacher", [hum(120)] * count)
    ours = System("ours", [hum(200, 2.0)] * harvard + [-hum(200, 2.0, 0.01)] * (count - harvard))
    told = measure(ours, teacher, Ears())
    assert told["wer_harvard"] == 0.0 and told["wer_harder"] == 1.0 and 0 < told["wer"] < 1
    assert told["wer_low"] < told["wer"] < told["wer_high"]
    assert told["natural"] == 2.0 and told["natural_error"] == 0.0 and told["clipped"] == 0
    assert told["likeness"] == pytest.approx((2 * harvard - count) / count)
    assert told["pitch"] == pytest.approx(200, rel=0.02)
    rows = markdown({"teacher": measure(teacher, teacher, Ears()), "ours": told}).splitlines()
    assert rows[0] == "| | teacher | ours |" and "| 0.000 / 0.000 | 0.000 / 1.000 |" in rows[3]
    assert {row.count("|") for row in rows} == {4}


def test_recordings_are_read_in_order(tmp_path: Path, small: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "spoken_texts", lambda: ["one", "two"])
    for number in range(2):
        soundfile.write(tmp_path / f"{number:03d}.wav", hum(100 * (number + 1)), SAMPLE_RATE)
    (found,) = systems([f"ours={tmp_path}"], small, None)
    assert found.name == "ours" and [len(s) for s in found.sounds] == [SAMPLE_RATE] * 2
    assert not np.allclose(*found.sounds)


@pytest.mark.parametrize(
    ("named", "told"), [("ours", "'ours' is not NAME=FOLDER"), ("=folder", "not NAME=FOLDER"), ("ours=", "not NAME")]
)
def test_a_system_without_name_or_folder_is_refused(named: str, told: str, small: Recipe) -> None:
    with pytest.raises(InputError, match=told):
        systems([named], small, None)


def test_recordings_that_cannot_serve(tmp_path: Path, small: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "spoken_texts", lambda: ["one"])
    with pytest.raises(InputError, match=r"000\.wav cannot be read"):
        systems([f"ours={tmp_path}"], small, None)
    soundfile.write(tmp_path / "000.wav", hum(100), 16000)
    with pytest.raises(InputError, match="not mono at 24000 Hz"):
        systems([f"ours={tmp_path}"], small, None)


def test_both_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = [System("teacher", [hum(120, 0.2)] * len(spoken_texts()))]
    compare.page(found, tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    compare.compare(found, Ears(), tmp_path)
    told = json.loads((tmp_path / "compared.json").read_text())
    assert told["teacher"]["wer"] == 0.0 and (tmp_path / "compared.md").read_text() == markdown(told)


def test_without_a_recogniser_the_page_is_drawn(tmp_path: Path, small: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(compare, "spoken_texts", lambda: ["one"])
    soundfile.write(tmp_path / "000.wav", hum(100), SAMPLE_RATE)
    Rebuild(small, tmp_path / "work", CPUDevice(1), None, Team()).compare([f"ours={tmp_path}"], None, None)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["spectrograms.png"]
