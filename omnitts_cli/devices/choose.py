"""Turns the name of a device into a Device, or an error that says why it cannot be used. Imports torch only where
PyTorch has to be asked.
"""

import ctypes
import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omnitts_cli.devices.device import Device
from omnitts_cli.devices.npu import PACKAGE
from omnitts_cli.errors import DeviceError, UsageError
from omnitts_cli.settings import environment
from omnitts_cli.settings.setting import DEVICE, DEVICE_NAMES

DRIVER = Path("/proc/driver/nvidia/version")
AMD = Path("/dev/kfd")
"""Where the drivers of NVIDIA's and of AMD's cards are."""
LIBRARIES = "libcuda.so.1", "nvcuda.dll"
"""The driver of CUDA, by system."""


def choose(name: str = "auto", threads: int | None = None, cores: int | None = None) -> Device:
    """The device called `name`. Only "auto" may fall back to the CPU; any other name gives that device or an error.
    `threads` and `cores` are for a CPU.
    """
    try:
        kind, _, index = DEVICE.read(name).partition(":")
    except ValueError:
        raise UsageError(f"{name!a} is not a device", hint=f"devices are {DEVICE_NAMES}") from None
    if kind in ("cuda", "npu"):
        return _kind(kind)(int(index or 0))
    return (_accelerator() if kind == "auto" else None) or _kind("cpu")(threads, cores)


KINDS = {
    "cpu": ("omnitts_cli.devices.cpu", "CPUDevice"),
    "cuda": ("omnitts_cli.devices.cuda", "CUDADevice"),
    "npu": ("omnitts_cli.devices.npu.device", "NPUDevice"),
}


def _kind(name: str) -> Any:
    module, called = KINDS[name]
    return getattr(importlib.import_module(module), called)


def is_cpu(name: str) -> bool:
    """Whether the device called `name` is certainly the CPU; finds out without PyTorch."""
    kind = name.partition(":")[0]
    return kind == "cpu" or (kind == "auto" and not software_of_npu() and not driver_of_cuda())


def driver_of_cuda() -> bool:
    """Whether the driver of a GPU is installed, so that PyTorch may find one."""
    for library in LIBRARIES:
        try:
            ctypes.CDLL(library)
        except OSError:
            continue
        return True
    return DRIVER.exists() or AMD.exists()


def _accelerator() -> Device | None:
    """The first that works. An NPU's software is imported only where it is installed and fits."""
    for kind, is_there in (("cuda", driver_of_cuda), ("npu", software_of_npu)):
        try:
            if is_there():
                return _kind(kind)()
        except DeviceError:
            continue
    return None


def software_of_npu() -> bool:
    """Whether the NPU's software is installed, without importing it."""
    return PACKAGE in sys.modules or find_spec(PACKAGE) is not None


def broken_cuda() -> DeviceError | None:
    """Why a GPU cannot be used although its driver is here; None where it can, is hidden, or where there is none."""
    if not DRIVER.exists() or environment.variable("CUDA_VISIBLE_DEVICES") == "-1":
        return None
    return _failure("cuda")


def unused_cards() -> list[str]:
    """Cards that PyTorch may know and that nothing here is written for, for `doctor`."""
    import torch

    found = ["the GPU of this Mac"] if torch.backends.mps.is_available() else []
    if torch.xpu.is_available():
        found.append(f"{torch.xpu.get_device_name(0)} (Intel)")
    if AMD.exists() and torch.version.hip is None:
        found.append("the AMD card")
    return found


def broken_npu() -> DeviceError | None:
    """Why an NPU cannot be used although its software is installed; None where it can, or where there is none."""
    return _failure("npu") if software_of_npu() else None


def _failure(kind: str) -> DeviceError | None:
    try:
        _kind(kind)()
    except DeviceError as error:
        return error
    return None
