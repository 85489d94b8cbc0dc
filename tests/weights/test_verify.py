"""Verifying: a flipped bit anywhere in a model is found and named."""

import base64
import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from omnitts_cli.weights.released import RELEASED, Released, ReleasedFile
from omnitts_cli.weights.sums import model_sha256, sha256_of
from omnitts_cli.weights.verify import VerifiedFile, problem, verify


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "speech_tokenizer").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights" * 1000)
    (folder / "speech_tokenizer" / "model.safetensors").write_bytes(b"codec" * 1000)
    return folder


def release(folder: Path) -> Released:
    def file(path: str, summed: bool) -> ReleasedFile:
        content = (folder / path).read_bytes()
        return ReleasedFile(path, len(content), hashlib.sha256(content).hexdigest() if summed else None)

    files = (
        file("config.json", False),
        file("model.safetensors", True),
        file("speech_tokenizer/model.safetensors", True),
    )
    return Released("1.7b-base", "a/b", "c" * 12, files)


def states(checked: list[VerifiedFile]) -> dict[str, str]:
    return {file.path: file.state for file in checked}


def test_a_whole_model(model: Path) -> None:
    checked = verify(model, release(model))
    assert states(checked) == {
        "config.json": "unknown",
        "model.safetensors": "ok",
        "speech_tokenizer/model.safetensors": "ok",
    }
    assert checked[0].note == "there is no checksum to compare it with"
    assert problem("1.7b-base", checked) is None


@pytest.mark.parametrize("at", [0, 3500, 6999])
def test_one_bit(model: Path, at: int) -> None:
    expected = release(model)
    flip(model / "model.safetensors", at)
    checked = verify(model, expected)
    assert states(checked)["model.safetensors"] == "damaged"
    error = problem("1.7b-base", checked)
    assert error is not None and error.exit_code == 4
    assert "model.safetensors is damaged (SHA-256 " in (error.cause or "")
    assert error.hint == "omnitts models rm 1.7b-base && omnitts models pull 1.7b-base"


def test_cut_and_missing(model: Path) -> None:
    expected = release(model)
    (model / "model.safetensors").write_bytes(b"weights")
    (model / "speech_tokenizer" / "model.safetensors").unlink()
    checked = verify(model, expected)
    assert states(checked)["model.safetensors"] == "damaged"
    assert states(checked)["speech_tokenizer/model.safetensors"] == "missing"
    error = problem("x", checked)
    assert error is not None
    assert error.cause == "model.safetensors is damaged (7 bytes instead of 7,000); and 1 more"


def test_the_cache_names_files_by_content(model: Path, tmp_path: Path) -> None:
    """Also for models that are in no table of ours: the Hub's own names are sums."""
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    large, small = model / "model.safetensors", model / "config.json"
    total = sha256_of(large)
    git = hashlib.sha1(b"blob 2\0{}").hexdigest()
    for path, name in ((large, total), (small, git)):
        path.rename(blobs / name)
        path.symlink_to(blobs / name)
    assert states(verify(model)) | {"speech_tokenizer/model.safetensors": ""} == {
        "config.json": "ok",
        "model.safetensors": "ok",
        "speech_tokenizer/model.safetensors": "",
    }
    assert model_sha256(model) == total
    flip(blobs / total, 5)
    flip(blobs / git, 0)
    assert states(verify(model))["model.safetensors"] == states(verify(model))["config.json"] == "damaged"


def test_released_weights_in_a_plain_folder(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verify(model)[1].note == f"SHA-256 {sha256_of(model / 'model.safetensors')}"
    monkeypatch.setitem(RELEASED, "1.7b-base", release(model))
    checked = {file.path: file for file in verify(model)}["model.safetensors"]
    assert (checked.state, checked.note) == ("ok", "same as in 1.7b-base")


def test_what_a_report_calls_a_model(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_sha256(model) == hashlib.sha256(b"weights" * 1000).hexdigest()
    monkeypatch.setattr("omnitts_cli.weights.sums.SMALL_BYTES", 6999)
    assert model_sha256(model) is None, "a large file of a plain folder is not read for a name"
    assert model_sha256(model / "nowhere") is None


def test_an_installed_package_keeps_the_sums_of_its_own_files(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Packed(SimpleNamespace):
        def locate(self) -> Path:
            return self.path

    def packed(path: Path, digest: str | None) -> Packed:
        value = base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=") if digest else ""
        return Packed(path=path, hash=SimpleNamespace(mode="sha256", value=value) if digest else None)

    weights = model / "model.safetensors"
    files = [packed(weights, sha256_of(weights)), packed(model / "gone.json", "0" * 64), packed(model / "RECORD", None)]
    monkeypatch.setattr("importlib.metadata.files", lambda name: files)
    found = states(verify(model))
    assert (found["model.safetensors"], found["gone.json"], found["config.json"]) == ("ok", "missing", "unknown")
    flip(weights, 3)
    assert states(verify(model))["model.safetensors"] == "damaged"
    hint = str(problem("tiny", verify(model)).hint)  # type: ignore[union-attr]
    assert "pip install --force-reinstall" in hint


def test_the_weights_of_the_embedded_voice_are_known_in_a_source_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.weights.find import TINY

    monkeypatch.setattr("omnitts_cli.weights.verify.shipped", lambda folder: {})
    states = {file.path: (file.state, file.note) for file in verify(TINY)}
    for name in ("model.safetensors", "speech_tokenizer/model.safetensors"):
        assert states[name] == ("ok", "matches README.md")
