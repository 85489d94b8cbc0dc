"""A model folder with a tuned voice says what the tuned voice says; the model's own folder stays as it is."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tune_kit
from safetensors.torch import load_file, save_file

import omnitts_cli
from omnitts_cli.errors import InputError
from omnitts_cli.speech.exported import named_in, write_model
from omnitts_cli.speech.voices import Voice
from omnitts_cli.voices import Cloned
from omnitts_cli.weights.checkpoint import Checkpoint


def sound(model: Path, voice: Voice | None, name: Voice | str) -> np.ndarray:
    given = {"device": "cpu", "threads": 1, "dtype": "fp32", "offline": True}
    with omnitts_cli.load(str(model), voice=voice, **given) as tts:
        return tts.speak("hello world", voice=name, seed=3, max_frames=6, retries=0, text_mode="whole").samples


def test_the_folder_speaks_as_the_tuned_voice_does(tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", tune_kit.golden_adapter("small", "one")
    shutil.copytree(tune_kit.folder("small"), base)
    save_file({name: one.float() for name, one in load_file(base / "model.safetensors").items()},
              base / "model.safetensors")  # fmt: skip
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    vector = tune_kit.Golden.of("small").tensors["speaker"].numpy()
    write_model(base, tmp_path / "made", "Ann", vector, "# a card\n", adapter)
    tuned = Voice(Cloned(vector), "ann", {}, adapter=adapter)
    found, wanted = sound(tmp_path / "made", None, "ann"), sound(base, tuned, tuned)
    assert found.size == wanted.size and np.allclose(found, wanted, atol=1e-4)
    assert not np.allclose(sound(base, None, Voice(Cloned(vector))), wanted, atol=1e-3)
    config = json.loads((tmp_path / "made" / "config.json").read_text())
    assert config["tts_model_type"] == "custom_voice" and [*config["talker_config"]["spk_id"]] == ["ann"]
    assert not [name for name in Checkpoint.open(tmp_path / "made").names() if name.startswith("speaker_encoder.")]
    assert (tmp_path / "made" / "README.md").read_text() == "# a card\n"
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before
    with pytest.raises(InputError):
        write_model(base, tmp_path / "made", "bob", vector, "", adapter)
    assert [path.name for path in tmp_path.iterdir()] in (["made", "base"], ["base", "made"])


def test_a_voice_takes_a_free_row_and_keeps_the_others() -> None:
    talker = {
        "vocab_size": 3072, "codec_pad_id": 2148, "code_predictor_config": {"vocab_size": 2048},
        "codec_language_id": {"english": 3001}, "spk_id": {"Eve": 3000}, "spk_is_dialect": {"Eve": False},
    }  # fmt: skip
    config = {"tts_model_type": "custom_voice", "talker_config": talker, "speaker_encoder_config": {}}
    assert named_in(config, "ann") == 3002
    assert config["talker_config"]["spk_id"] == {"Eve": 3000, "ann": 3002} and "speaker_encoder_config" in config
    assert talker["spk_id"] == {"Eve": 3000}
    with pytest.raises(InputError):
        named_in(config, "eve")
    small = {"talker_config": {**talker, "vocab_size": 2150}}
    assert named_in(small, "ann") == 2149
