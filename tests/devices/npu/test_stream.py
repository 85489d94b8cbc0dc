"""Streams, fetches and captured steps of an NPU, in a process with a fake one."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INSIDE = "on_stream.py"
TABLES = json.loads((HERE / "vendor.json").read_text("utf-8"))


def test_on_the_fake_npu(inside: str, proof: Callable[[str, str, str], None]) -> None:
    proof(INSIDE, next(reversed(TABLES)), inside)


@pytest.mark.parametrize("version", TABLES)
def test_the_fake_has_the_vendors_interface(version: str) -> None:
    """Names, order and defaults of everything that graphs, streams and memory are asked for."""
    told = {name: text for file in TABLES[version]["interface"].values() for name, text in file.items()}
    program = f"import sys; sys.path.insert(0, {str(HERE)!r}); import test_stream; test_stream.tell()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ours = json.loads(done.stdout)
    if version == "2.9.0":  # an argument that came later, and that we do not use
        assert told.pop("is_bf16_supported") != ours.pop("is_bf16_supported")
    assert ours == told


def tell() -> None:
    """The fake's signatures, to standard output."""
    sys.path.insert(0, str(HERE))
    import fake_npu

    newest = next(reversed(TABLES.values()))
    told = {}
    for name in (name for file in newest["interface"].values() for name in file):
        thing = fake_npu
        for part in name.split("."):
            thing = getattr(thing, part)
        parameters = inspect.signature(thing).parameters.values()
        told[name] = ", ".join(str(p.replace(annotation=inspect.Parameter.empty)) for p in parameters)
    sys.stdout.write(json.dumps(told))
