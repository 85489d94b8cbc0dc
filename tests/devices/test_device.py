"""What every device answers, and the CPU's answer to each."""

import ast
import inspect
from concurrent.futures import Future

import numpy as np
import pytest
import torch

from omnitts_cli.devices import accelerator, cpu, cuda, device, system
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.devices.npu.device import NPUDevice


def asked(protocol: type) -> set[str]:
    """Names of a protocol: its methods and its facts."""
    methods = {name for name, one in vars(protocol).items() if inspect.isfunction(one) and not name.startswith("_")}
    return methods | set(protocol.__annotations__)


def offered(kind: type) -> set[str]:
    """What a class answers, read from its source and its bases': the class need not run here."""
    names: set[str] = set()
    for node in (node for base in kind.__mro__[:-1] for node in ast.walk(ast.parse(inspect.getsource(base)))):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        for target in node.targets if isinstance(node, ast.Assign) else ():
            names.add(target.id if isinstance(target, ast.Name) else getattr(target, "attr", ""))
    return names


@pytest.mark.parametrize(
    ("role", "kinds"),
    [
        (device.Device, (cpu.CPUDevice, cuda.CUDADevice, NPUDevice)),
        (device.Stream, (cpu.CPUStream, accelerator.AcceleratorStream)),
        (device.Fetch, (Future, accelerator.PinnedFetch)),
    ],
    ids=["device", "stream", "fetch"],
)
def test_every_device_answers_everything(role: type, kinds: tuple[type, ...]) -> None:
    for kind in kinds:
        assert asked(role) <= offered(kind), kind.__name__


def test_a_captured_step_of_the_cpu_is_the_step() -> None:
    calls: list[int] = []
    replay = CPUDevice(1).stream().capture(lambda: calls.append(1))
    before = len(calls)
    replay()
    replay()
    assert len(calls) == before + 2 and not CPUDevice(1).captures


def test_threads_are_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    CPUDevice(2)
    assert torch.get_num_threads() == 2
    CPUDevice()
    assert torch.get_num_threads() == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    CPUDevice()
    assert torch.get_num_threads() == system.physical_cores()
    CPUDevice(1)


def test_whole_numbers_and_flags_cross_over() -> None:
    one = CPUDevice(1)
    for array in (np.arange(3), np.array([True, False]), np.zeros((0, 4), np.float32)):
        assert np.array_equal(one.to_device(array).numpy(), array)
    assert one.is_out_of_memory(MemoryError()) and not one.is_out_of_memory(ValueError())
    assert one.free_bytes() > 0 and one.peak_bytes() > 0
