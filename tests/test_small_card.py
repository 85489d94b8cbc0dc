"""benchmarks/small_card.py: what it asks, and on a card the code and the memory of a small one."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def small_card(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("rig", "small_card"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("small_card")


def test_long_texts_are_pieces_that_a_model_says_in_one_request(small_card: ModuleType) -> None:
    texts = small_card.long_texts(110)
    assert len(texts) == small_card.LONG_TEXTS
    assert all(sum(map(len, text)) >= 900 - len(text) for text in texts)
    assert all(0 < len(piece) <= 110 for text in texts for piece in text)


def test_only_what_is_asked_for_runs(small_card: ModuleType) -> None:
    found = small_card.calls(["memory", "quality"])
    assert len(found) == len(small_card.CARDS) + 1 and {call[0] for call in found} == {"memory", "quality"}


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a large card for itself")
@pytest.mark.parametrize(
    ("name", "gib", "dtype", "slots"), [("0.6b", 3, "auto", 4), ("1.7b", 4, "auto", 4), ("1.7b", 8, "q8", 24)]
)
def test_a_model_speaks_in_the_memory_of_a_small_card(name: str, gib: int, dtype: str, slots: int) -> None:
    """Slots of a minute beside a desktop, with the kernels that a small card has too, compiled for this one."""
    line = [sys.executable, BENCHMARKS / "small_card.py", "--own", "--call", f"memory {name} {gib} {dtype}"]
    env = {**os.environ, "OMNITTS_NATIVE": "0"}
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["speaks"] and found["all_slots_speak"] and found["slots_of_a_minute"] >= slots
    assert found["peak_gib"] <= found["most_gib"]
