"""Tests on the fake NPU run in a process of their own, one for each file of proofs and vendor's version.

A test module names such a file in INSIDE, and its tests that take `inside` get the name of every test in it.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).parent
LONGEST_S = 240

Proof = Callable[[str, str, str], None]


def tests_in(file: Path) -> list[str]:
    body = ast.parse(file.read_text("utf-8")).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "inside" in metafunc.fixturenames:
        metafunc.parametrize("inside", tests_in(HERE / metafunc.module.INSIDE))


@pytest.fixture(scope="session")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    """Fails as the test `name` of a file of proofs failed, with that version of torch_npu imitated."""
    known: dict[tuple[str, str], dict[str, list[str | None]]] = {}

    def check(file: str, version: str, name: str) -> None:
        if (file, version) not in known:
            known[file, version] = outcomes(file, version, tmp_path_factory.mktemp("proofs") / "report.xml")
        results = known[file, version].get(name)
        assert results, f"{name} did not run"
        assert not any(results), "\n".join(filter(None, results))

    return check


def outcomes(file: str, version: str, report: Path) -> dict[str, list[str | None]]:
    """What became of each test, by its name without parameters: None, or how it failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(HERE / file)]
    environment = os.environ | {"FAKE_NPU_VERSION": version, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=HERE.parents[2], env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False
    )
    assert report.exists(), done.stdout + done.stderr
    found: dict[str, list[str | None]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        wrong = next((part for part in case if part.tag in ("failure", "error")), None)
        found.setdefault(case.attrib["name"].split("[")[0], []).append(None if wrong is None else wrong.text)
    assert found, done.stdout + done.stderr
    return found
