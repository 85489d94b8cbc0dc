"""The family: rename tables that match modules and files, a folder without the thinker, a whole model."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from golden_set import omni_folder, thinker_folder

from omnitts_cli.cli.codec import decoded
from omnitts_cli.cli.voices import speakers
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import ModelError
from omnitts_cli.families.known import family, family_of
from omnitts_cli.families.qwen3_omni import released
from omnitts_cli.families.qwen3_omni.config import Config
from omnitts_cli.families.qwen3_omni.family import parts
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load import load_model, open_engine
from omnitts_cli.voices import Named
from omnitts_cli.weights.arrays import sources_of
from omnitts_cli.weights.checkpoint import Checkpoint


def test_every_parameter_has_a_source_and_every_tensor_a_reader(config: Config) -> None:
    """Nothing is allocated before the files are compared."""
    unread = set(Checkpoint.open(omni_folder()).names())
    for part in parts(config).all():
        assert all(weight.is_meta for weight in part.module.parameters())
        assert set(part.names) == {own for own, _ in part.module.named_parameters()}
        for source in part.names.values():
            unread -= set(sources_of(source))
    assert {name.split(".")[1] for name in unread} == {"hidden_projection"}  # of the towers for pictures and sounds


def test_a_whole_model(omni: SpeechModel) -> None:
    assert omni.kinds == {"named"} and omni.cloner is None
    assert omni.speakers == {"ethan": "male", "chelsie": "female", "aiden": "male, American"}
    assert len(omni.languages) == 10 and omni.sampling.predictor_top_p == 0.8
    assert omni.facts.missing_samples == 555 and omni.dtype == torch.float32


def test_its_folder_is_distinguished_from_the_other_familys() -> None:
    assert family_of(omni_folder()) is family("qwen3_omni_moe")
    model = load_model(str(omni_folder()), CPUDevice(1))
    assert model.facts.missing_samples == 555 and set(model.speakers) == {"ethan", "chelsie", "aiden"}


def test_another_models_folder_is_refused(tmp_path: Path) -> None:
    for path in omni_folder().iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    with pytest.raises(ModelError, match=r"whisper.*qwen3_tts, qwen3_omni_moe"):
        load_model(str(tmp_path), CPUDevice(1))


def test_the_codec_stays_float32_in_bfloat16() -> None:
    model = load_model(str(omni_folder()), CPUDevice(1), settings=EngineSettings(dtype="bf16"))
    assert all(weight.dtype == model.dtype == torch.bfloat16 for weight in model.talker.parameters())
    assert model.codec.table.dtype == torch.float32


def test_a_made_up_model_of_the_released_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ids and counts of the release, narrow: it opens without a file, and makes calm sound."""
    top = released.config()
    talker, predictor = (top["talker_config"][key] for key in ("text_config", "code_predictor_config"))
    for stack in (talker, predictor):
        stack |= {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 16, "head_dim": 8}
    talker |= {"moe_intermediate_size": 8, "shared_expert_intermediate_size": 8}
    top["talker_config"]["thinker_hidden_size"] = 4
    top["thinker_config"]["text_config"]["hidden_size"] = 4
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4}
    top["code2wav_config"] |= sizes | {"decoder_dim": 32, "num_hidden_layers": 2}
    monkeypatch.setattr(released, "config", lambda: top)
    engine = open_engine("random:omni", device="cpu", slots=2, seconds=4)
    assert engine.model.name == "random:omni" and engine.model.facts.end_code == 2150
    clip = engine.clip(Request("hello", Named("aiden"), seed=1, max_frames=6, ignore_end=True))
    assert clip.codes.shape == (6, 16) and len(clip.pcm) == 6 * 1920 - 555
    assert 0.001 < np.abs(clip.pcm).max() < 1


def test_every_row_uses_the_shared_expert_without_another_copy(omni: SpeechModel) -> None:
    """28 wide, it becomes as many further experts of the others' width as hold it."""
    for layer in omni.talker.stack.layers:
        names = {name for name, _ in layer.experts.named_parameters()}
        assert names == {"router", "gate_up", "down"}
        block, inner = layer.experts.block(), layer.experts.shape.inner
        assert len(block.gate_up) == len(block.down) == 8 + -(-28 // inner) and len(block.router) == 9


def test_voices_are_listed_without_opening_the_weights() -> None:
    assert [name for name, _, _ in speakers(str(omni_folder()))] == ["ethan", "chelsie", "aiden"]


def test_codes_are_decoded_to_their_last_sample(omni: SpeechModel) -> None:
    """More frames than the command decodes at once: only the first run of them is short."""
    codes = torch.randint(0, 64, (40, 16), generator=torch.Generator().manual_seed(0))
    sound = np.concatenate([*decoded(SimpleNamespace(model=omni), codes.numpy())])
    np.testing.assert_allclose(sound, omni.codec(codes[None])[0].numpy(), rtol=0, atol=2e-5)


@pytest.mark.parametrize("folder", [omni_folder, thinker_folder], ids=["omni", "thinker"])
def test_the_golden_folders_are_what_the_official_library_makes_of_their_configs(folder: Callable[[], Path]) -> None:
    """It refuses a shape that differs. Of omni/, everything that listens and thinks is left out; of both, the eyes."""
    pytest.importorskip("transformers")
    from transformers import Qwen3OmniMoeForConditionalGeneration  # takes seconds, so not while tests are collected

    _, found = Qwen3OmniMoeForConditionalGeneration.from_pretrained(
        folder(), dtype=torch.float32, output_loading_info=True
    )
    assert not found["unexpected_keys"]
    left_out = "thinker." if folder is omni_folder else "thinker.model.visual."
    assert [name for name in found["missing_keys"] if not name.startswith(left_out)] == []
