"""The family: modules without numbers, rename tables that match them and the files exactly, a whole model."""

from pathlib import Path

import numpy as np
import pytest
import torch
from golden_set import checkpoint
from safetensors import safe_open
from tiny_models import tiny_model

from omnitts_cli.families.common.fields import Fields
from omnitts_cli.families.common.names import HEAD, books
from omnitts_cli.families.common.parts import Parts
from omnitts_cli.families.qwen3_tts import released
from omnitts_cli.families.qwen3_tts.config import config_of, read_config
from omnitts_cli.families.qwen3_tts.modules import parts
from omnitts_cli.models.sources import One
from omnitts_cli.weights.arrays import sources_of


@pytest.mark.parametrize("name", ["custom_voice", "custom_voice_small", "voice_design", "base", "base_large"])
def test_every_parameter_has_a_source_and_every_tensor_a_reader(name: str) -> None:
    """Nothing is allocated before the files are compared."""
    folder = checkpoint(name)
    unread: dict[str, set[str]] = {}
    for part in parts(read_config(folder)).all():
        assert all(weight.is_meta for weight in part.module.parameters())
        file = folder / part.folder / "model.safetensors"
        with safe_open(file, "pt") as stored:
            unread.setdefault(part.folder, set(stored.keys()))
        assert set(part.names) == {own for own, _ in part.module.named_parameters()}
        for source in part.names.values():
            unread[part.folder] -= {source.name} if isinstance(source, One) else set(source.names)
    assert not unread[""]
    # of the codec only the encoder has tensors that nobody needs, and models that cannot clone need none of it
    assert all(name.startswith("encoder.") for name in unread["speech_tokenizer"])


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


# ---- the published files


@pytest.fixture(scope="module")
def published() -> Parts:
    files = (released.model_config("0.6b-base"), released.codec_config(), {})
    return parts(config_of(*(Fields(Path("config.json"), file) for file in files)))


BOOKS, FLAGS = 3 * 16, 16
"""Unused tensors of the encoder: the books that are left out, and the flags that say whether a book is initialized."""


@pytest.mark.parametrize(
    ("part", "count", "ours", "theirs"),
    [
        ("decoder", 271, "rises.3.units.2.after.beta", "decoder.decoder.4.block.4.act2.beta"),
        ("encoder", 225 - BOOKS - FLAGS, "closing.conv.weight", "encoder.encoder.layers.14.conv.weight"),
        ("speaker", 76, "out.weight", "speaker_encoder.fc.weight"),
    ],
)
def test_all_published_tensors_are_named(published: Parts, part: str, count: int, ours: str, theirs: str) -> None:
    piece = getattr(published, part)
    named = [name for source in piece.names.values() for name in sources_of(source)]
    assert len(named) == len(set(named)) == count
    assert piece.names.keys() == piece.module.state_dict().keys()
    assert sources_of(piece.names[ours]) == (theirs,)


def test_an_entry_is_its_sum_over_its_usage() -> None:
    sums, usage = np.float32([[2, 4], [3, 3]]), np.float32([2, 0])
    made = books(sums, usage, sums, np.ones(2, np.float32))
    np.testing.assert_allclose(made[0], [[1, 2], [3e5, 3e5]], rtol=1e-6)
    assert np.array_equal(made[1], sums) and made.dtype == np.float32
