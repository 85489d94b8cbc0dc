"""choose: names of devices, and what is said about the others."""

from __future__ import annotations

import pytest

from omnitts_cli.devices.choose import choose
from omnitts_cli.errors import DeviceError, OmniError, UsageError


def test_the_cpu_by_name() -> None:
    assert choose("cpu", 1).name == choose("CPU", 1).name == "cpu"


def test_auto_always_finds_something() -> None:
    assert choose("auto", 1).name.split(":")[0] in ("cpu", "cuda")


@pytest.mark.parametrize("name", ["", "gpu", "cuda:", "cuda:-1", "cuda:1e3", "cpu:0", "auto:1", "cuda:１", "cuda:0\n"])
def test_what_is_no_device(name: str) -> None:
    with pytest.raises(UsageError, match="not a device"):
        choose(name)


@pytest.mark.parametrize("name", ["npu", "npu:0", "mps"])
def test_devices_that_are_not_supported(name: str) -> None:
    with pytest.raises(DeviceError, match="not supported"):
        choose(name)


def test_a_named_device_is_never_replaced() -> None:
    with pytest.raises(OmniError, match="cuda:999"):
        choose("cuda:999")
