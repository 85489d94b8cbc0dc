"""Checkpoints come back whole."""

from pathlib import Path

import pytest
import torch

from omnitts_cli.tuning import checkpoints


def test_a_checkpoint_comes_back_from_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "LARGEST", 100)
    tensors = {f"speech.{n}": torch.full((20,), float(n)) for n in range(5)}
    checkpoints.save(tmp_path, "speech", tensors)
    assert len(list(tmp_path.glob("speech.*.safetensors"))) == 5
    assert not list(tmp_path.glob("*.new"))
    found = checkpoints.under("speech", checkpoints.load(tmp_path, "speech"))
    assert found.keys() == {str(n) for n in range(5)}
    assert torch.equal(found["3"], tensors["speech.3"])


def test_nothing_is_left_of_a_larger_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the codec learns again after its polish, whose checkpoint also holds discriminators."""
    monkeypatch.setattr(checkpoints, "LARGEST", 100)
    for count in (5, 2):
        checkpoints.save(tmp_path, "codec", {f"codec.{n}": torch.full((20,), float(n)) for n in range(count)})
    assert checkpoints.load(tmp_path, "codec").keys() == {"codec.0", "codec.1"}


def test_nothing_saved_is_nothing(tmp_path: Path) -> None:
    assert checkpoints.load(tmp_path, "codec") == {}
