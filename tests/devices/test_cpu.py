"""The CPU as a device; what it cannot measure is None."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.devices.host import omp_threads
from omnitts_cli.devices.system import physical_cores, processor
from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels.cpu import library
from omnitts_cli.settings import environment


@pytest.fixture
def cpu() -> CPUDevice:
    return CPUDevice(1)


def test_it_says_what_it_is(cpu: CPUDevice) -> None:
    assert cpu.card == f"{processor()}, 1 thread"
    assert processor()
    assert physical_cores() >= 1


def test_waits_that_cannot_be_counted_are_none_and_not_zero(cpu: CPUDevice) -> None:
    with cpu.count_syncs() as waits:
        torch.ones(3).sum().item()
    assert waits() is None


def test_a_fetch_is_a_copy(cpu: CPUDevice) -> None:
    tensor = torch.ones(3)
    fetch = cpu.stream().fetch(tensor, tensor.bfloat16())
    tensor.zero_()
    assert fetch.done()
    assert [array.tolist() for array in fetch.result()] == [[1, 1, 1], [1, 1, 1]]
    assert fetch.result()[1].dtype == np.float32


def test_what_goes_to_the_device_is_a_copy(cpu: CPUDevice) -> None:
    array = np.ones(3, np.float32)
    tensor = cpu.to_device(array)
    array[:] = 0
    assert tensor.tolist() == [1, 1, 1]


def test_a_stream_is_in_inference_mode_and_silent_about_what_is_not_finite(cpu: CPUDevice) -> None:
    stream = cpu.stream()
    before = np.geterr()
    with stream, stream, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.is_inference_mode_enabled() and np.isinf(np.float32(1e30) * np.float32(1e30))
    assert not torch.is_inference_mode_enabled() and np.geterr() == before


@pytest.mark.skipif(not library.usable(), reason="needs the compiled library")
def test_it_is_exact_with_the_compiled_library_only(cpu: CPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu.make_exact()
    assert cpu.exact
    monkeypatch.setenv(environment.NATIVE, "0")
    without = CPUDevice(1)
    with pytest.raises(DeviceError, match="compiled library"):
        without.make_exact()
    assert not without.exact


@pytest.mark.parametrize(("system", "unit"), [("linux", 1024), ("darwin", 1)])
def test_peak_memory_is_in_bytes_on_every_system(
    cpu: CPUDevice, monkeypatch: pytest.MonkeyPatch, system: str, unit: int
) -> None:
    """macOS counts in bytes where Linux counts in KiB."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=5))
    monkeypatch.setattr("sys.platform", system)
    assert cpu.peak_bytes() == 5 * unit


@pytest.mark.parametrize(("value", "threads"), [("3", 3), ("0", None), ("4,2", None), ("", None), ("-1", None)])
def test_omp_num_threads_is_respected(monkeypatch: pytest.MonkeyPatch, value: str, threads: int | None) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert omp_threads() == threads
