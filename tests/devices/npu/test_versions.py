"""torch, torch_npu and CANN: what does not fit together is told before anything is imported, with the versions."""

import builtins
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from omnitts_cli.devices.npu import versions
from omnitts_cli.errors import DeviceError

OURS = versions.release(torch.__version__)


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def vendor(monkeypatch: pytest.MonkeyPatch, cann: str) -> None:
    """A torch_npu that imports, over that CANN."""
    names = ("torch_npu", "torch_npu.npu", "torch_npu.npu.utils")
    torch_npu, npu, utils = (ModuleType(name) for name in names)
    utils.get_cann_version = lambda module="CANN": cann
    npu.utils, torch_npu.npu = utils, npu
    for name, module in zip(names, (torch_npu, npu, utils), strict=True):
        monkeypatch.setitem(sys.modules, name, module)


def refusal(monkeypatch: pytest.MonkeyPatch, version: str | None) -> DeviceError:
    monkeypatch.setattr(versions, "installed", lambda: version)
    with pytest.raises(DeviceError) as caught:
        versions.require()
    return caught.value


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.13.0+cpu", "2.13.0"), ("2.13.0.post2", "2.13.0"), ("2.9.1rc1", "2.9.1"), ("2.12", "2.12.0"), ("odd", "odd")],
)
def test_builds_of_one_release_are_one(version: str, expected: str) -> None:
    assert versions.release(version) == expected


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(monkeypatch, None)
    assert "torch_npu is not installed" in error.message
    assert f"torch_npu=={OURS}" in str(error.hint)
    assert "CANN 8.5 or newer" in str(error.hint)


def test_another_release_is_refused_before_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(monkeypatch, "2.1.0.post17")
    assert "torch_npu 2.1.0.post17 belongs to torch 2.1.0" in error.message
    assert torch.__version__ in error.message
    assert "torch_npu" not in sys.modules


def test_it_does_not_work_beside_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    error = refusal(monkeypatch, OURS)
    assert "beside a CUDA device" in error.message
    assert "CUDA_VISIBLE_DEVICES=-1" in str(error.hint)


def test_without_cann_it_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, no_cuda: None) -> None:
    known = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "torch_npu":
            raise ImportError("libhccl.so: cannot open shared object file\nand more")
        return known(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    error = refusal(monkeypatch, OURS)
    assert error.message.endswith("cannot start: libhccl.so: cannot open shared object file")
    assert "set_env.sh" in str(error.hint)


@pytest.mark.parametrize("cann", ["8.3.RC1", "8.0.0", "7.0.RC1"])
def test_an_older_cann_is_named(monkeypatch: pytest.MonkeyPatch, no_cuda: None, cann: str) -> None:
    vendor(monkeypatch, cann)
    assert f"CANN is {cann[:3]}" in refusal(monkeypatch, OURS).message


@pytest.mark.parametrize("cann", ["8.5.0", "8.5.RC1", "9.1.0", "10.0", "", "unknown"])
def test_what_fits_is_handed_out(monkeypatch: pytest.MonkeyPatch, no_cuda: None, cann: str) -> None:
    vendor(monkeypatch, cann)
    monkeypatch.setattr(versions, "installed", lambda: f"{OURS}.post1")
    assert versions.require() is sys.modules["torch_npu"]


SPEAK = """
import sys
from omnitts_cli.cli.app import main
sys.argv = ["omnitts", "--version"]
try:
    main()
except SystemExit:
    import torch
    print("torch", torch.__version__, "broken_npu" in sys.modules)
"""


@pytest.mark.parametrize(("said", "works"), [(None, True), ("1", False)])
def test_an_installation_that_is_broken_does_not_break_the_command(
    tmp_path: Path, said: str | None, works: bool
) -> None:
    """torch imports whatever announces itself as a backend, which the command does without."""
    (tmp_path / "broken_npu.py").write_text("raise ImportError('libhccl.so: cannot open shared object file')")
    folder = tmp_path / "broken_npu-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken_npu\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[torch.backends]\nbroken_npu = broken_npu:_autoload\n")
    kept = {name: value for name, value in os.environ.items() if name != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    environment = kept | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    if said is not None:
        environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = said
    done = subprocess.run([sys.executable, "-c", SPEAK], env=environment, capture_output=True, text=True, check=False)
    assert (f"torch {torch.__version__} False" in done.stdout) == works, done.stderr
    assert ("libhccl.so" in done.stderr) != works
