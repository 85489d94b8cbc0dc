"""Model folders of strangers: links out, impossible names, unsafe formats, code that must not run."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from trap import Trap

from omnitts_cli.errors import ModelError
from omnitts_cli.weights.find import find
from omnitts_cli.weights.folder import SMALL_FILE_LIMIT, check_folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The least that looks like a model folder."""
    folder = tmp_path / "model"
    (folder / "speech_tokenizer").mkdir(parents=True)
    for name in ("", "speech_tokenizer/"):
        (folder / f"{name}config.json").write_text("{}")
        (folder / f"{name}model.safetensors").write_bytes(b"")
    return folder


def refused(folder: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        find(str(folder))
    assert caught.value.exit_code == 4 and caught.value.message.isprintable()
    return caught.value


def test_a_good_folder(model: Path) -> None:
    found = find(str(model))
    assert found.folder == model.resolve() and found.name == str(model)


def test_a_link_to_a_good_folder(model: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(model)
    assert find(str(tmp_path / "link")).folder == model.resolve()


def test_code_in_the_folder_is_left_alone(model: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    code = f"open({str(marker)!r}, 'w')"
    for name in ("modeling.py", "__init__.py", "conftest.py", "sitecustomize.py"):
        (model / name).write_text(code)
    (model / "config.json").write_text('{"auto_map": {"AutoConfig": "modeling.C"}, "trust_remote_code": true}')
    assert check_folder(model) == model.resolve()
    assert not marker.exists()


@pytest.mark.parametrize("place", ["model.safetensors", "vocab.json", "speech_tokenizer/config.json"])
def test_a_link_out_of_the_folder(model: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "secret").write_text("{}")
    (model / place).unlink(missing_ok=True)
    (model / place).symlink_to(tmp_path / "secret")
    error = refused(model)
    assert place in error.message and "to a place outside the folder" in (error.cause or "")


def test_a_folder_that_is_a_link_out(model: Path, tmp_path: Path) -> None:
    (model / "speech_tokenizer").rename(tmp_path / "elsewhere")
    (model / "speech_tokenizer").symlink_to(tmp_path / "elsewhere")
    assert "speech_tokenizer" in refused(model).message


def test_a_link_that_leads_nowhere_or_to_itself(model: Path) -> None:
    (model / "loop.json").symlink_to(model / "loop.json")
    assert refused(model).message
    (model / "loop.json").unlink()
    (model / "dangling.json").symlink_to("/nowhere/at/all")
    assert "outside the folder" in (refused(model).cause or "")


def test_links_inside_are_fine(model: Path) -> None:
    (model / "vocab.json").symlink_to("config.json")
    assert check_folder(model) == model.resolve()


def test_the_hubs_cache_links_to_its_blobs(model: Path, tmp_path: Path) -> None:
    snapshots = tmp_path / "hub" / "models--a--b" / "snapshots"
    snapshots.mkdir(parents=True)
    (snapshots.parent / "blobs").mkdir()
    (model / "config.json").rename(snapshots.parent / "blobs" / "c0ffee")
    (model / "config.json").symlink_to("../../blobs/c0ffee")
    moved = model.rename(snapshots / "abc")
    assert check_folder(moved) == moved.resolve()
    (moved / "vocab.json").symlink_to("/etc/hostname")
    assert "outside the folder" in (refused(moved).cause or "")


@pytest.mark.parametrize(
    "name",
    ["CON", "con.json", "aux.safetensors", "NUL", "LPT1.txt", "com¹", "a:b", "a?", "dot.", "space ", "a\\b", "a\x1bb"],
)
def test_names_that_windows_cannot_have(model: Path, name: str) -> None:
    (model / name).write_text("{}")
    assert "is not allowed" in (refused(model).cause or "")


def test_a_folder_without_a_model_is_reported_before_odd_names(tmp_path: Path) -> None:
    (tmp_path / "what?.txt").touch()
    with pytest.raises(ModelError, match="is not a model folder"):
        check_folder(tmp_path)


@pytest.mark.parametrize("name", ["console.json", "auxiliary.txt", ".gitattributes", "com.json", "模型.txt"])
def test_names_that_are_fine(model: Path, name: str) -> None:
    (model / name).write_text("{}")
    assert check_folder(model)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.pt", "model.PTH", "epoch.ckpt", "weights.pkl", "codes.npy", "all.npz"]
)
def test_only_safetensors(model: Path, tmp_path: Path, name: str) -> None:
    for path in model.rglob("*.safetensors"):
        path.unlink()
    marker = tmp_path / "marker"
    (model / name).write_bytes(pickle.dumps(Trap(marker)))
    error = refused(model)
    assert name in error.message and "can run code" in error.message
    assert "safetensors" in (error.hint or "")
    assert not marker.exists()


def test_unsafe_files_beside_safe_ones_are_never_opened(model: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    torch.save({"x": Trap(marker)}, model / "optimizer.pt")
    np.save(model / "codes.npy", np.array([Trap(marker)], dtype=object), allow_pickle=True)
    assert check_folder(model) == model.resolve()
    assert not marker.exists()


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_file_is_missing(model: Path, missing: str) -> None:
    (model / missing).unlink()
    error = refused(model)
    assert error.cause == f"{missing} is missing" and "speech_tokenizer" in (error.hint or "")


def test_a_config_of_gigabytes(model: Path) -> None:
    with (model / "config.json").open("r+b") as file:
        file.truncate(SMALL_FILE_LIMIT + 1)
    assert "the limit is" in (refused(model).cause or "")


def test_a_file_where_a_folder_should_be(model: Path) -> None:
    assert "is not a folder" in refused(model / "config.json").message
