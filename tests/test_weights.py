"""benchmarks/weights.py: every copy of a weight is counted once, and a new one shows up."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from omnitts_cli.speech import load

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    import importlib

    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("rig", "weights"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("weights")


@pytest.fixture(scope="module")
def engine() -> Any:
    return load.open_engine("random:toy", device="cpu", slots=1)


def test_every_weight_is_counted_once(weights: ModuleType, engine: Any) -> None:
    *rows, total = weights.copies(engine)
    assert total["bytes"] == sum(row["bytes"] for row in rows)
    stored = {
        weight.untyped_storage().data_ptr(): weight.untyped_storage().nbytes()
        for part in (engine.model.talker, engine.model.predictor, engine.model.embedder, engine.model.codec)
        for weight in part.parameters()
    }
    assert sum(stored.values()) <= total["bytes"]
    assert len(weights.held({"one": engine.model, "other": engine.model}, torch.device("cpu"))) == len(
        weights.held({"one": engine.model}, torch.device("cpu"))
    )
    assert {"talker, as stored", "predictor, as stored", "tables of codes"} <= {row["copy"] for row in rows}


def test_a_new_copy_shows_up(weights: ModuleType, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = weights.copies(engine)[-1]["bytes"]
    monkeypatch.setattr(engine.model.talker, "packed", [torch.zeros(1000)], raising=False)
    assert weights.copies(engine)[-1]["bytes"] == before + 4000
