"""The family: modules without numbers, rename tables that match them and the files exactly, a whole model."""

from __future__ import annotations

import pytest
import torch
from golden_set import checkpoint
from safetensors import safe_open
from tiny_models import tiny_model

from omnitts_cli.families.common.names import HEAD
from omnitts_cli.families.qwen3_tts.config import read_config
from omnitts_cli.families.qwen3_tts.modules import parts
from omnitts_cli.models.sources import One


@pytest.mark.parametrize("name", ["custom_voice", "custom_voice_small", "voice_design", "base", "base_large"])
def test_every_parameter_has_a_source_and_every_tensor_a_reader(name: str) -> None:
    folder = checkpoint(name)
    unread: dict[str, set[str]] = {}
    for part in parts(read_config(folder)).all():
        file = folder / part.folder / "model.safetensors"
        with safe_open(file, "pt") as stored:
            unread.setdefault(part.folder, set(stored.keys()))
        assert set(part.names) == {own for own, _ in part.module.named_parameters()}
        for source in part.names.values():
            unread[part.folder] -= {source.name} if isinstance(source, One) else set(source.names)
    assert not unread[""]
    # of the codec only the encoder has tensors that nobody needs, and models that cannot clone need none of it
    assert all(name.startswith("encoder.") for name in unread["speech_tokenizer"])


def test_nothing_is_allocated_before_the_files_are_compared() -> None:
    for part in parts(read_config(checkpoint("base"))).all():
        assert all(weight.is_meta for weight in part.module.parameters())


def test_the_tensor_that_shows_the_stored_format() -> None:
    names = parts(read_config(checkpoint("base"))).language.names
    assert names["talker.head"] == One(HEAD)


def test_a_whole_model() -> None:
    model = tiny_model("custom_voice")
    assert model.name == "custom_voice" and model.kinds == {"named"} and model.cloner is None
    assert model.speakers["ryan"] == "native language English" and len(model.speakers) == 9
    assert "english" in model.languages and len(model.languages) == 10
    assert model.facts.hidden == 64 and model.facts.vocabulary == 1088 and model.facts.missing_samples == 0
    assert model.device == torch.device("cpu") and model.dtype == torch.float32
    assert tiny_model("base").cloner is not None and not tiny_model("base").speakers
