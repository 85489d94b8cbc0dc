"""The vendor's operators: the committed table is the wheel, and our calls mean what the plain twins mean."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent
INSIDE = "on_operators.py"
TABLES = json.loads((HERE / "vendor.json").read_text("utf-8"))
OLDEST, NEWEST = TABLES


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_on_the_fake_npu(inside: str, version: str, proof: Callable[[str, str, str], None]) -> None:
    proof(INSIDE, version, inside)


def names_of(text: str) -> tuple[list[str], list[str], dict[str, str]]:
    """Positional names, keyword names and defaults of a schema or of a Python signature."""
    inner = text[text.index("(") + 1 : text.rindex(") ->")] if "->" in text else text
    before, _, behind = inner.partition("*, ")
    defaults = {}

    def names(part: str) -> list[str]:
        found = []
        for argument in filter(None, (one.strip(" ,") for one in re.split(r", ", part))):
            head, _, default = argument.partition("=")
            found.append(head.split()[-1])
            if default:
                defaults[found[-1]] = default.strip("\"'")
        return found

    return names(before), names(behind), defaults


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("operator", TABLES[NEWEST]["schemas"])
def test_the_vendors_two_descriptions_agree_in_what_we_lean_on(version: str, operator: str) -> None:
    """Positional names differ between the library and the Python twin, so we pass required tensors by position."""
    told, meta = (names_of(TABLES[version][kind][operator]) for kind in ("schemas", "meta"))
    assert len(told[0]) == len(meta[0])
    assert sorted(told[1]) == sorted(meta[1])
    for name in told[1]:
        assert told[2][name] == meta[2][name], name


def test_no_mask_of_a_fixed_size_bounds_the_length() -> None:
    """The compressed masks of the vendor's sparse modes are 2048 wide whatever the length; ours are as wide as it."""
    room = HERE.parents[2] / "omnitts_cli/devices/npu"
    assert [path.name for path in room.glob("*.py") if "2048" in path.read_text("utf-8")] == []


def reader() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vendor_table", HERE / "vendor_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_table_is_the_real_wheel(version: str, tmp_path: Path) -> None:
    """The wheel is read, never installed or imported. Needs a network and a Python it is built for."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(tmp_path)]
    done = subprocess.run([*command, f"torch_npu=={version}"], capture_output=True, text=True, check=False)
    wheels = list(tmp_path.glob("*.whl"))
    if not wheels:
        pytest.skip(f"no wheel of torch_npu {version} for this machine: {done.stderr[-200:]}")
    read: dict[str, Any] = reader().table(wheels[0])
    assert read == TABLES[version]


def test_the_reader_sees_a_change(tmp_path: Path) -> None:
    import ast

    table = reader()
    source = '@impl(m, "npu_swiglu")\ndef meta(x, dim: int = -1):\n    pass\n'
    assert table.registered(ast.parse(source)) == {"npu_swiglu": "x, dim=-1"} != {"npu_swiglu": "x, dim=0"}
    library = b"\0npu_swiglu(Tensor input, int dim=-1) -> Tensor\0npu_swiglu.out(Tensor x) -> Tensor\0"
    assert table.schema(library, "npu_swiglu") == TABLES[NEWEST]["schemas"]["npu_swiglu"]
    with pytest.raises(AssertionError, match="not registered"):
        table.schema(library, "npu_rms_norm")
