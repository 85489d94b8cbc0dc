"""The family: rename tables that match modules and files, a folder without the thinker, a whole model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from omnitts_cli.build import load_model
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import ModelError
from omnitts_cli.families.known import FAMILIES, family_of
from omnitts_cli.families.qwen3_omni.config import Config
from omnitts_cli.families.qwen3_omni.family import parts
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.settings import EngineSettings
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import sources_of


def test_every_parameter_has_a_source_and_every_tensor_a_reader(config: Config, omni_folder: Path) -> None:
    unread = set(Checkpoint.open(omni_folder).names())
    for part in parts(config).all():
        assert set(part.names) == {own for own, _ in part.module.named_parameters()}
        for source in part.names.values():
            unread -= set(sources_of(source))
    assert {name.split(".")[1] for name in unread} == {"hidden_projection"}  # of what pictures and sounds are heard by


def test_nothing_is_allocated_before_the_files_are_compared(config: Config) -> None:
    for part in parts(config).all():
        assert all(weight.is_meta for weight in part.module.parameters())


def test_a_whole_model(omni: SpeechModel) -> None:
    assert omni.kinds == {"named"} and omni.cloner is None
    assert omni.speakers == {"ethan": "male", "chelsie": "female", "aiden": "male, American"}
    assert len(omni.languages) == 10 and omni.sampling.predictor_top_p == 0.8
    assert omni.facts.missing_samples == 555 and omni.dtype == torch.float32


def test_its_folder_is_told_from_the_first_familys(omni_folder: Path) -> None:
    assert family_of(omni_folder) is FAMILIES["qwen3_omni_moe"]
    model = load_model(str(omni_folder), CPUDevice(1))
    assert model.facts.missing_samples == 555 and set(model.speakers) == {"ethan", "chelsie", "aiden"}


def test_another_models_folder_is_refused(tmp_path: Path, omni_folder: Path) -> None:
    for path in omni_folder.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    with pytest.raises(ModelError, match=r"whisper.*qwen3_tts, qwen3_omni_moe"):
        load_model(str(tmp_path), CPUDevice(1))


def test_routing_stays_float32_in_bfloat16(omni_folder: Path) -> None:
    model = load_model(str(omni_folder), CPUDevice(1), settings=EngineSettings(dtype="bf16"))
    pieces = [layer.experts for layer in model.talker.stack.layers]
    assert all(block.router.dtype == torch.float32 for block in pieces)
    assert all(block.gate_up.dtype == model.dtype == torch.bfloat16 for block in pieces)
    assert model.codec.table.dtype == torch.float32
