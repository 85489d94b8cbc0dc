"""The whole engine on a fake NPU: equal to the CPU, and held to what graphs and streams forbid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

INSIDE = "on_engine.py"
NEWEST = next(reversed(json.loads((Path(__file__).parent / "vendor.json").read_text("utf-8"))))


def test_on_the_fake_npu(inside: str, proof: Callable[[str, str, str], None]) -> None:
    proof(INSIDE, NEWEST, inside)
