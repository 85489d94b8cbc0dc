"""choose: names of devices, and what is said about the others."""

import sys
from pathlib import Path

import pytest
import torch

from omnitts_cli.devices import choose as choosing
from omnitts_cli.devices.choose import broken_cuda, broken_npu, choose
from omnitts_cli.devices.npu import versions
from omnitts_cli.errors import DeviceError, OmniError, UsageError


def test_the_cpu_by_name() -> None:
    assert choose("cpu", 1).name == choose("CPU", 1).name == "cpu"


def test_auto_always_finds_something() -> None:
    assert choose("auto", 1).name.split(":")[0] in ("cpu", "cuda", "npu")


@pytest.mark.parametrize("name", [
    "", "gpus", "gpu:x", "cuda:", "cuda:-1", "cuda:1e3", "cpu:0", "auto:1", "cuda:１", "cuda:0\n", "npu:", "npu:x",
    "npus", "mps",
])  # fmt: skip
def test_what_is_no_device(name: str) -> None:
    with pytest.raises(UsageError, match="not a device"):
        choose(name)


def test_a_named_device_is_never_replaced() -> None:
    with pytest.raises(OmniError, match="cuda:999"):
        choose("cuda:999")


@pytest.mark.parametrize("name", ["npu", "npu:3", "NPU:0"])
def test_an_npu_without_its_software_names_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "installed", lambda: None)
    with pytest.raises(DeviceError, match="torch_npu is not installed") as caught:
        choose(name)
    assert "CANN 8.5" in str(caught.value.hint)


def test_no_other_name_imports_the_npus_software() -> None:
    choose("auto", 1)
    assert versions.installed() is not None or "torch_npu" not in sys.modules


def test_npu_software_that_does_not_work_is_reported_and_auto_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions.installed() is not None or broken_npu() is None
    monkeypatch.setattr("omnitts_cli.devices.choose.software_of_npu", lambda: "2.1.0")
    monkeypatch.setattr(versions, "installed", lambda: "2.1.0")
    error = broken_npu()
    assert error is not None
    assert "torch_npu 2.1.0 belongs to torch 2.1.0" in error.message
    assert choose("auto", 1).name.split(":")[0] in ("cpu", "cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="it works here")
def test_a_gpu_that_torch_cannot_use_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("omnitts_cli.devices.choose.DRIVER", tmp_path / "version")
    assert broken_cuda() is None
    (tmp_path / "version").touch()
    error = broken_cuda()
    assert error is not None and "cuda:0 is not usable" in error.message
    assert "omnitts doctor" not in str(error.hint)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert broken_cuda() is None


@pytest.mark.parametrize(("version", "count", "reason", "step"), [
    (None, 0, "was built without CUDA", "install a CUDA build of PyTorch"),
    ("12.8", 0, "finds no device or driver", "check that nvidia-smi lists the GPU"),
    ("12.8", 1, "cannot use the driver", "update the NVIDIA driver"),
])  # fmt: skip
def test_a_gpu_that_cannot_be_used_has_a_next_step(
    version: str | None, count: int, reason: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(DeviceError, match=reason) as caught:
        choose("cuda")
    assert str(caught.value.hint).startswith(step) and "omnitts doctor" not in str(caught.value.hint)


def test_a_rocm_build_without_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError) as caught:
        choose("cuda")
    assert "AMD" in caught.value.message and caught.value.hint


def test_cards_that_are_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(choosing, "AMD", tmp_path / "kfd")
    assert choosing.unused_cards() == []
    monkeypatch.setattr(torch.xpu, "is_available", lambda: True)
    monkeypatch.setattr(torch.xpu, "get_device_name", lambda index: "Arc")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    (tmp_path / "kfd").touch()
    assert len(choosing.unused_cards()) == 3 and any("Arc" in name for name in choosing.unused_cards())
