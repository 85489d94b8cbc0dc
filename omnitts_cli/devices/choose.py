"""choose: a device's name, as the user says it -> the Device, or why it cannot be used."""

from __future__ import annotations

import re

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.devices.cuda import CUDADevice
from omnitts_cli.devices.device import Device
from omnitts_cli.errors import DeviceError, UsageError

NAMES = "auto, cpu, cuda or cuda:N"
_NAME = re.compile(r"(auto|cpu|cuda)(?::(\d{1,3}))?", re.ASCII)


def choose(name: str = "auto", threads: int | None = None) -> Device:
    """The device called `name`. Only "auto" may settle for the CPU; a named device is that one or an error."""
    parts = _NAME.fullmatch(name.lower())
    if parts is None or (parts[2] and parts[1] != "cuda"):
        if name.lower().startswith(("npu", "mps")):
            raise DeviceError(f"{name!a} is not supported by this version", hint=f"-d {NAMES}")
        raise UsageError(f"{name!a} is not a device", hint=f"devices are {NAMES}")
    if parts[1] == "cpu":
        return CPUDevice(threads)
    try:
        return CUDADevice(int(parts[2] or 0))
    except DeviceError:
        if parts[1] == "auto":
            return CPUDevice(threads)
        raise
