"""benchmarks/weights.py: every copy of a weight is counted once, and a new one shows up."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import cuda_emulator
import pytest
import torch

from omnitts_cli.kernels import choose
from omnitts_cli.kernels.cuda import predictor, talker
from omnitts_cli.kernels.ops import LayerWeights, PredictorParts
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


def test_readers_are_kernels_of_the_table(weights: ModuleType) -> None:
    """A kernel that was renamed or taken out has no copy of the weights."""
    known = {one.name for operation in choose.OPERATIONS for one in operation.variants}
    named = [name for _, _, reader in weights.READERS for name in re.findall(r"[\w*]+\.cu\b", reader)]
    assert set(named) <= known and {"talker.cu", "predictor.cu", "prefetched.cu", "codec_deep.cu"} <= set(named)


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


def layer() -> LayerWeights:
    """The shapes of the persistent kernels, with a residual stream of 1,024 columns."""
    shapes = {"qkv": (4096, 1024), "out": (1024, 2048), "gate_up": (6144, 1024), "down": (1024, 3072)}
    widths = {"input_norm": 1024, "mlp_norm": 1024, "q_norm": 128, "k_norm": 128}
    made = {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in shapes.items()}
    return LayerWeights(**made, **{name: torch.zeros(width, dtype=torch.bfloat16) for name, width in widths.items()})


@pytest.mark.parametrize("role", ["talker", "predictor"])
def test_one_row_and_many_rows_read_the_same_lines(
    role: str, weights: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --exact, where every number of rows has kernels: each matrix once, and `down` once more for one row."""
    for module in (talker, predictor):
        monkeypatch.setattr(module, "Kernel", lambda *sizes, **options: None)  # nothing is compiled or launched
        monkeypatch.setattr(module, "Overflow", cuda_emulator.Overflow)
    layers, norm, turns = [layer(), layer()], torch.zeros(1024, dtype=torch.bfloat16), torch.zeros(3, 64)
    if role == "talker":
        fused: Any = talker.PersistentTalker(layers, norm, {}, exact=True)
    else:
        heads, tables = (torch.zeros(count, 2048, 1024, dtype=torch.bfloat16) for count in (2, 1))
        fused = predictor.PersistentPredictor(
            PredictorParts(layers, norm, 1e-6, 8, turns, turns, heads, tables), {}, True
        )
        del fused._tables, fused._many._tables  # given, not made
    found = {row["copy"]: row["bytes"] for row in weights.rows_of({f"{role}.fused": fused}, torch.device("cpu"))}
    matrices = 2 * sum(part.nbytes for part in (layer().qkv, layer().out, layer().gate_up, layer().down))
    expected = {f"{role}, in the order of kernels": matrices, f"{role}, `down` for one row": 2 * layer().down.nbytes}
    if role == "predictor":
        expected["predictor's heads, in the order of kernels"] = heads.nbytes
    others = found.pop("all") - sum(expected.values())
    assert expected.items() <= found.items() and set(found) <= {*expected, "norms and buffers of persistent kernels"}
    assert others < layer().down.nbytes  # no matrix is among the buffers
