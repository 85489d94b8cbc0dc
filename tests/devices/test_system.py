"""Cores and memory, on systems that are not this one: their programs and calls are faked."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from omnitts_cli.devices import system
from omnitts_cli.devices.cpu import CPUDevice


@pytest.mark.parametrize(
    ("text", "cores"), [("150000 100000", 2), ("20000 100000", 1), ("max 100000", sys.maxsize), ("", sys.maxsize)]
)
def test_a_containers_share_of_the_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, cores: int
) -> None:
    monkeypatch.setattr("omnitts_cli.devices.system.CONTAINER", tmp_path / "cpu.max")
    assert system.quota() == sys.maxsize
    (tmp_path / "cpu.max").write_text(text)
    assert system.quota() == cores
    assert system.physical_cores() <= cores


VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               40000.
Pages active:                            300000.
Pages inactive:                           20000.
Pages speculative:                         3000.
Pages throttled:                              0.
Pages wired down:                        100000.
Pages purgeable:                           1000.
"Translation faults":                 123456789.
"""
M4 = {"machdep.cpu.brand_string": "Apple M4\n", "hw.perflevel0.physicalcpu": "4\n", "hw.physicalcpu": "10\n"}
INTEL = {"machdep.cpu.brand_string": "Intel(R) Core(TM) i5\n", "hw.physicalcpu": "6\n"}


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A Mac whose sysctl knows these names."""
    known = request.param

    def run(command: tuple[str, ...], **options: Any) -> SimpleNamespace:
        if command[0] == "vm_stat":
            return SimpleNamespace(stdout=VM_STAT)
        if command[-1] not in known:
            raise subprocess.CalledProcessError(1, command)
        return SimpleNamespace(stdout=known[command[-1]])

    monkeypatch.setattr(system.sys, "platform", "darwin")
    monkeypatch.setattr(system.subprocess, "run", run)


@pytest.mark.parametrize(("mac", "cores"), [(M4, 4), (INTEL, 6)], indirect=["mac"])
def test_a_mac_counts_the_cores_for_performance(mac: None, cores: int) -> None:
    assert system.physical_cores() == cores
    assert system.processor().startswith(("Apple", "Intel"))


@pytest.mark.parametrize("mac", [M4], indirect=True)
def test_free_memory_of_a_mac(mac: None) -> None:
    assert system.free_memory() == 64_000 * 16_384 == CPUDevice(1).free_bytes()
    assert system.free_of("nothing of the kind") is None


@pytest.mark.parametrize("mac", [{}], indirect=True)
def test_a_mac_that_says_nothing(mac: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert system.physical_cores() >= 1 and system.processor()

    def missing(*_: Any, **__: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(system.subprocess, "run", missing)
    assert system.physical_cores() >= 1 and system.free_memory() is None


def test_free_memory_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(status: Any) -> int:
        status._obj.free = 5 << 30
        return status._obj.size == 64

    kernel = SimpleNamespace(GlobalMemoryStatusEx=fill)
    monkeypatch.setattr(system.sys, "platform", "win32")
    assert system.free_memory() is None  # there is no windll here
    monkeypatch.setattr(system.ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    assert system.free_memory() == 5 << 30


def test_free_memory_of_linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(system, "MEMORY", tmp_path / "meminfo")
    assert system.free_memory() is None and CPUDevice(1).free_bytes() == 4 << 30
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   3 kB\n")
    assert system.free_memory() == 3072


def test_peak_memory_where_nobody_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert system.peak_memory() > 0
    monkeypatch.setitem(sys.modules, "resource", None)
    assert system.peak_memory() == 0
