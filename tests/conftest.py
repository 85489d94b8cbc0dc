"""Fixtures of every room: the golden reference set, its tiny checkpoints and its cases.

The committed set holds recipes and trimmed cases; both are filled in once per session. A full set, as
`tests/golden/make_golden.py` writes it, takes its place when OMNITTS_GOLDEN_DIR names one. The second family
has a set of its own, from `tests/golden/make_omni.py`, with OMNITTS_OMNI_GOLDEN_DIR for another seed's.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

HERE = Path(__file__).parent / "golden"
sys.path.insert(0, str(HERE))  # its modules are no package: they also run by themselves

import omni_recipe  # noqa: E402
from recipe import build_checkpoint  # noqa: E402
from trim import expand  # noqa: E402

from omnitts_cli.kernels.cpu import build  # noqa: E402

pytest_plugins = ("command",)  # fixtures of tests/support/command.py: the command as a test calls it


def pytest_configure() -> None:
    """A shell starts its background jobs with Ctrl-C ignored, and every child inherits that; tests send it.

    The CPU's library is compiled where it is missing and there is a compiler: a checkout has none.
    """
    if not build.library().exists() and build.compiler() and os.environ.get("OMNITTS_NATIVE") != "0":
        build.build()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Case:
    """One golden case: what was asked (`meta`), and what the official package did (`tensors`)."""

    name: str  # "custom_voice/english_nonstream"
    meta: dict[str, Any]
    tensors: dict[str, Tensor]

    def same(self, key: str, whole: Tensor) -> Tensor:
        """The part of `whole` that the set kept of `key`; everything where it was not trimmed."""
        axis, start, stop = self.meta.get("kept", {}).get(key, (0, 0, whole.shape[0]))
        return whole.narrow(axis, start, min(stop, whole.shape[axis]) - start)


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `cases/<checkpoint>/<case>.{json,safetensors}` and, once asked for, `checkpoints/<name>/`."""
    root = tmp_path_factory.mktemp("golden")
    full = os.environ.get("OMNITTS_GOLDEN_DIR")
    if full:
        (root / "cases").symlink_to(Path(full).resolve() / "golden")
        (root / "checkpoints").symlink_to(Path(full).resolve() / "checkpoints")
    else:
        expand(HERE / "cases", root / "cases")
        (root / "checkpoints").mkdir()
    return root


@pytest.fixture(scope="session")
def checkpoint(golden: Path) -> Callable[[str], Path]:
    """The folder of a tiny checkpoint in the released layout, built when first asked for. Do not write into it."""

    def folder(name: str) -> Path:
        path = golden / "checkpoints" / name
        return path if path.exists() else build_checkpoint(HERE / "checkpoints" / name, path)

    return folder


@pytest.fixture(scope="session")
def case(golden: Path) -> Callable[[str], Case]:
    """A case by its name, such as "base/xvector_stream"."""

    def load(name: str) -> Case:
        path = golden / "cases" / name
        return Case(
            name, json.loads(path.with_suffix(".json").read_text()), load_file(path.with_suffix(".safetensors"))
        )

    return load


@pytest.fixture(scope="session")
def omni_golden() -> Path:
    """`recipe/` and `cases/` of the second family."""
    return Path(os.environ.get("OMNITTS_OMNI_GOLDEN_DIR") or HERE / "omni")


@pytest.fixture(scope="session")
def omni_folder(omni_golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its tiny folder in the released layout, weights in numbered parts. Do not write into it."""
    return omni_recipe.build(omni_golden / "recipe", tmp_path_factory.mktemp("omni") / "model")


@pytest.fixture(scope="session")
def omni_case(omni_golden: Path) -> Callable[[str], Case]:
    """A case of it by its name, such as "say"."""

    def load(name: str) -> Case:
        path = omni_golden / "cases" / f"{name}.json"
        return Case(name, json.loads(path.read_text()), load_file(path.with_suffix(".safetensors")))

    return load
