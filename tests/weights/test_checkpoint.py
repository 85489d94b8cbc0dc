"""Whole model folders: the tiny reference checkpoints load, also in parts, and what does not fit is one clear error."""

import shutil
from pathlib import Path

import pytest
import torch
from golden_set import checkpoint
from safetensors.torch import load_file, save_file

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.parts import Parts
from omnitts_cli.families.qwen3_tts.config import read_config
from omnitts_cli.families.qwen3_tts.modules import parts
from omnitts_cli.kernels.ops import type_name
from omnitts_cli.models.sources import One
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.find import find
from omnitts_cli.weights.load import fill

CHECKPOINTS = ["custom_voice", "custom_voice_small", "voice_design", "base", "base_large"]

WEIGHTS, CODEC = "model.safetensors", "speech_tokenizer/model.safetensors"


def load(folder: Path) -> Parts:
    """A folder's parts with their numbers, as a build would do it."""
    found = find(str(folder)).folder
    assert found is not None
    made = parts(read_config(found))
    for part in made.all():
        fill(part.module, part.names, Checkpoint.open(found / part.folder), "cpu", torch.float32, unused=part.leftover)
    return made


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_reference_checkpoints_load(name: str) -> None:
    folder = checkpoint(name)
    for part in load(folder).all():
        stored = load_file(folder / part.folder / "model.safetensors")
        ours = part.module.state_dict()
        assert part.names.keys() == dict(part.module.named_parameters()).keys()
        for ours_name, source in part.names.items():
            if isinstance(source, One):
                assert torch.equal(ours[ours_name], stored[source.name].float())


@pytest.mark.parametrize("file", [WEIGHTS, CODEC])
def test_every_tensor_is_read_as_the_official_reader_does(file: str) -> None:
    path = checkpoint("base") / file
    files, stored = Checkpoint.open(path), load_file(path)
    assert files.names() == {name: (type_name(value.dtype), tuple(value.shape)) for name, value in stored.items()}
    assert all(torch.equal(files.tensor(name), value) for name, value in stored.items())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy that may be spoilt."""
    return Path(shutil.copytree(checkpoint("custom_voice"), tmp_path / "model"))


def refused(folder: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load(folder)
    error = caught.value
    assert error.exit_code == 4 and error.__cause__ is None
    assert str(folder) in error.message or folder.name in error.message
    assert error.hint
    return error


@pytest.mark.parametrize("other", ["custom_voice_small", "base_large"])
def test_weights_of_another_model(model: Path, other: str) -> None:
    shutil.copy(checkpoint(other) / WEIGHTS, model / WEIGHTS)
    if other == "base_large":
        assert load(model), "a speaker encoder that is not used does no harm"
    else:
        assert "differences: " in (refused(model).cause or "")


def split(path: Path, count: int) -> list[Path]:
    """The same tensors in several numbered files."""
    tensors = load_file(path)
    names = sorted(tensors)
    path.unlink()
    made = []
    for part in range(count):
        made.append(path.with_name(f"model-{part + 1:05d}-of-{count:05d}.safetensors"))
        save_file({name: tensors[name] for name in names[part::count]}, made[-1])
    return made


def test_numbered_parts(model: Path) -> None:
    whole = load(model).language.module.state_dict()
    split(model / WEIGHTS, 3)
    again = load(model).language.module.state_dict()
    assert all(torch.equal(again[name], whole[name]) for name in whole)


def test_a_part_is_missing(model: Path) -> None:
    split(model / WEIGHTS, 3)[1].unlink()
    assert refused(model).cause == "model-00002-of-00003.safetensors is missing"


def test_with_an_index_a_part_may_be_left_out_until_it_is_needed(model: Path) -> None:
    split(model / WEIGHTS, 3)[1].unlink()
    (model / "model.safetensors.index.json").write_text("{}")
    assert len(Checkpoint.open(model).headers) == 2
    assert "missing: talker." in (refused(model).cause or "")


def test_parts_of_two_models(model: Path) -> None:
    parts = split(model / WEIGHTS, 2)
    shutil.copy(parts[0], model / "model-00001-of-00003.safetensors")
    assert "mixes shards" in (refused(model).cause or "") or "is missing" in (refused(model).cause or "")


def test_a_tensor_in_two_parts(model: Path) -> None:
    first, second = split(model / WEIGHTS, 2)
    tensors = load_file(second)
    name, value = next(iter(load_file(first).items()))
    save_file(tensors | {name: value}, second)
    assert f"'{name}' is in two files of the model" in (refused(model).cause or "")


def test_an_unknown_tensor_is_an_internal_error(model: Path) -> None:
    with pytest.raises(KeyError):
        Checkpoint.open(model).tensor("nobody")
