"""The NPU as a device, in a process with a fake one: facts, errors, doctor, and a model by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

INSIDE = "on_device.py"
NEWEST = next(reversed(json.loads((Path(__file__).parent / "vendor.json").read_text("utf-8"))))


def test_on_the_fake_npu(inside: str, proof: Callable[[str, str, str], None]) -> None:
    proof(INSIDE, NEWEST, inside)


@pytest.mark.npu
def test_on_a_real_npu_the_engine_speaks() -> None:
    """For whoever has the hardware: pytest -m npu"""
    from omnitts_cli.request import Request
    from omnitts_cli.speech import load as build
    from omnitts_cli.voices import Named

    codes = []
    for device in ("npu", "cpu"):
        engine = build.open_engine("random:toy", device=device, dtype="fp32", slots=2, seconds=4, threads=1)
        asked = Request("hello", Named("ann"), seed=1, max_frames=12, ignore_end=True)
        codes.append(engine.clip(asked).codes.tolist())
    assert codes[0] == codes[1]
