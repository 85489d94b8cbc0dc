"""Weights in 8 bits against the official package, whose weights are rounded in the same way: its codes are ours.

`tests/golden/make_eight.py` makes the reference.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from eight_recipe import rounded
from golden_set import HERE, checkpoint
from safetensors.torch import load_file, save_file

from omnitts_cli.devices.host import HostDevice
from omnitts_cli.engine.engine import Engine
from omnitts_cli.kernels.cpu import library
from omnitts_cli.request import Request, Sampling
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech import load
from omnitts_cli.voices import Designed, Named
from omnitts_cli.weights import eight_files

CASES: list[dict[str, Any]] = json.loads((HERE / "eight.json").read_text("utf-8"))
GREEDY = Sampling(temperature=0.0, predictor_temperature=0.0)


def asked(case: dict[str, Any]) -> Request:
    voice = Named(case["speaker"]) if "speaker" in case else Designed(case["instruct"])
    return Request(case["text"], voice, "english", sampling=GREEDY, max_frames=len(case["codes"]))


@pytest.mark.parametrize("rows", ["float", "eight"])
@pytest.mark.parametrize("name", sorted({case["checkpoint"] for case in CASES}))
def test_codes_are_those_of_the_official_package(
    name: str, rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Widths that are multiples of 32 and others. With float rows, the rounded weights run in float32; with rounded
    rows, the reference adds its sums in our order.
    """
    if not library.usable():
        pytest.skip("the library of the CPU was not compiled")
    monkeypatch.setattr(eight_files, "folder", lambda: tmp_path / "q8")
    folder = shutil.copytree(checkpoint(name), tmp_path / name)
    if rows == "float":
        file = folder / "model.safetensors"
        save_file(rounded(load_file(file)), file, {"format": "pt"})
    device = HostDevice(1)
    settings = EngineSettings(dtype="q8" if rows == "eight" else "fp32")
    model = load.load_model(str(folder), device, settings=settings)
    engine = Engine(model, device, load.plan_for(model, device, settings))
    mine = [case for case in CASES if (case["checkpoint"], case["rows"]) == (name, rows)]
    assert len(mine) == 8
    for case in mine:
        assert engine.clip(asked(case)).codes.tolist() == case["codes"], case["text"]
