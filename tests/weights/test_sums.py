"""Sums: asked again, no file is read; what has changed is seen; gigabytes are read only when that is asked for."""

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from omnitts_cli.weights import sums
from omnitts_cli.weights.sums import identity, memory_path, model_sha256

OLD = time.time_ns() - 3_600_000_000_000


@pytest.fixture
def model(home: Path) -> Path:
    folder = home / "model"
    (folder / "speech_tokenizer").mkdir(parents=True)
    for name in ("model.safetensors", "config.json", "vocab.json", "merges.txt", "README.md"):
        write(folder / name, name * 100)
    write(folder / "speech_tokenizer" / "model.safetensors", "codec")
    write(folder / "speech_tokenizer" / "config.json", "{}")
    return folder


def write(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, ns=(OLD, OLD))


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as old the moment they are written: a test cannot set the time of change."""
    monkeypatch.setattr(sums, "FRESH_S", -1.0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read for their sum."""
    seen: list[str] = []
    real = sums.sha256_of

    def counted(path: Path) -> str:
        seen.append(path.name)
        return real(path)

    monkeypatch.setattr(sums, "sha256_of", counted)
    return seen


def test_a_sum_is_computed_once(model: Path, settled: None, reads: list[str]) -> None:
    total = hashlib.sha256(b"model.safetensors" * 100).hexdigest()
    assert [model_sha256(model) for _ in range(3)] == [total] * 3
    assert reads == ["model.safetensors"]
    assert list(json.loads(memory_path().read_text())) == [str(model / "model.safetensors")]


@pytest.mark.parametrize("change", ["same size", "same size and time", "longer"])
def test_a_changed_file_is_read_again(model: Path, settled: None, reads: list[str], change: str) -> None:
    first = model_sha256(model)
    weights = model / "model.safetensors"
    text = weights.read_text()
    time.sleep(0.02)  # the clock of a file system steps
    if change == "same size":
        weights.write_text(text.upper())
    else:
        write(weights, text.upper() + "!" * (change == "longer"))
    assert model_sha256(model) == hashlib.sha256(weights.read_bytes()).hexdigest() != first
    assert len(reads) == 2


def test_a_file_that_was_just_written_is_not_remembered(
    model: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "FRESH_S", 3600.0)
    model_sha256(model)
    model_sha256(model)
    assert len(reads) == 2 and not memory_path().exists()


def test_gigabytes_are_read_on_request_only(
    model: Path, settled: None, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "SMALL_BYTES", 1000)
    assert model_sha256(model) is None and identity(model) is None and "model.safetensors" not in reads[:1]
    whole = identity(model, read=True)
    assert whole is not None and model_sha256(model) is not None
    reads.clear()
    assert identity(model) == whole and reads == []


def test_every_file_that_has_a_say_counts(model: Path, settled: None) -> None:
    first = identity(model)
    (model / "README.md").write_text("other words")
    assert identity(model) == first
    for name in ("config.json", "vocab.json", "merges.txt", "speech_tokenizer/model.safetensors"):
        before = identity(model)
        (model / name).write_text(f"another {name}")
        assert identity(model) != before, name
    (model / "speech_tokenizer" / "model.safetensors").unlink()
    assert identity(model) not in (None, first)


def test_a_copy_is_the_same_model(model: Path, home: Path) -> None:
    import shutil

    shutil.copytree(model, home / "copy")
    assert identity(home / "copy") == identity(model)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": [1, 2, 3, 4, "x"]}', '{"a": 5}', "[" * 100_000])
def test_a_damaged_memory_is_forgotten(model: Path, settled: None, content: str) -> None:
    memory_path().parent.mkdir(parents=True)
    memory_path().write_text(content)
    assert model_sha256(model) == hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    assert list(json.loads(memory_path().read_text())) == [str(model / "model.safetensors")]


def test_a_folder_that_cannot_be_written_only_costs_time(model: Path, settled: None, home: Path) -> None:
    memory_path().parent.parent.mkdir(parents=True, exist_ok=True)
    memory_path().parent.write_text("a file where the folder should be")
    assert model_sha256(model) is not None
