"""Which families there are, and that another one costs a folder and a line."""

from pathlib import Path

import pytest

from omnitts_cli import families
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import ModelError
from omnitts_cli.families import known
from omnitts_cli.request import Request
from omnitts_cli.speech.load import load_model, open_engine

THIRD = '''
"""A family of one made-up model, in a folder of its own."""

from dataclasses import replace

from omnitts_cli.families.qwen3_tts.family import FAMILY as FIRST
from omnitts_cli.families.toy import toy_config

FAMILY = replace(
    FIRST,
    model_type="third",
    made_up=("third",),
    made_up_config=lambda file, name: toy_config(),
    complete=lambda name, variant: name,
)
'''


def test_every_line_has_its_folder() -> None:
    assert [one.model_type for one in known.families()] == list(known.FOLDERS)


def test_a_folder_of_no_family_is_refused_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "fourth"}')
    with pytest.raises(ModelError, match=r"'fourth' is not supported; supported: qwen3_tts, qwen3_omni_moe"):
        known.family_of(tmp_path)


def test_a_third_family_is_a_folder_and_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "family.py").write_text(THIRD)
    (tmp_path / "config.json").write_text('{"model_type": "third"}')
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])
    monkeypatch.setitem(known.FOLDERS, "third", "third")
    assert known.family_of(tmp_path).model_type == "third"
    assert load_model("random:third", CPUDevice(1)).facts.sample_rate == 8000
    engine = open_engine("random:third", device="cpu", slots=1)
    clip = engine.clip(Request("hello", max_frames=3, ignore_end=True))
    assert len(clip.codes) == 3
