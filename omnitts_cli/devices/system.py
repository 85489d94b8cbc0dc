"""This machine, as its system describes it: the processor, its cores, and memory. Linux, macOS and Windows."""

import ctypes
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

CONTAINER = Path("/sys/fs/cgroup/cpu.max")
MEMORY = Path("/proc/meminfo")
PAGES = ("free", "inactive", "speculative", "purgeable")
"""The kinds of pages, as macOS names them, that a program which asks for memory can get."""


def processor() -> str:
    """The name of the processor."""
    if sys.platform == "darwin":
        return said_by("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):  # another system, or a processor that reports less
        return platform.processor() or platform.machine()


def physical_cores() -> int:
    """Hyper-threads share one vector unit, so more threads than cores slow the products down. On a Mac, only the
    cores for performance count: a frame waits for its slowest thread.
    """
    if sys.platform == "darwin":
        counted = [said_by("sysctl", "-n", name) for name in ("hw.perflevel0.physicalcpu", "hw.physicalcpu")]
        return next((int(count) for count in counted if count.isdecimal() and int(count)), os.cpu_count() or 1)
    try:
        usable = os.sched_getaffinity(0)
    except AttributeError:
        usable = set(range(os.cpu_count() or 1))
    seen = set()
    for number in usable:
        try:
            with open(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list") as file:
                seen.add(file.read().strip())
        except OSError:
            seen.add(str(number))
    return max(1, min(len(seen), quota()))


def quota() -> int:
    """The CPU quota of the container, in cores; with more threads, the kernel would pause them."""
    try:
        most, period = CONTAINER.read_text().split()
        return max(1, round(int(most) / int(period)))
    except (OSError, ValueError):  # no container, or "max"
        return sys.maxsize


def free_memory() -> int | None:
    """The bytes that are free, and that caches would give up; None where the system does not say."""
    if sys.platform == "darwin":
        return free_of(said_by("vm_stat"))
    if sys.platform == "win32":
        return free_on_windows()
    try:
        lines = dict(line.split(":", 1) for line in MEMORY.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def free_of(counts: str) -> int | None:
    """The free bytes in what vm_stat of macOS prints."""
    size = re.search(r"page size of (\d+) bytes", counts)
    pages = dict(re.findall(r"^Pages (\w+): +(\d+)", counts, re.MULTILINE))
    if size is None or "free" not in pages:
        return None
    return int(size[1]) * sum(int(pages.get(name, 0)) for name in PAGES)


class MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of Windows."""

    _fields_ = [("size", ctypes.c_uint32), ("load", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64)
        for name in ("total", "free", "page", "free_page", "virtual", "free_virtual", "extended")
    ]


def free_on_windows() -> int | None:
    """The free bytes that Windows reports."""
    status = MemoryStatus(size=ctypes.sizeof(MemoryStatus))
    try:
        done = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return None
    return int(status.free) if done else None


def peak_memory() -> int:
    """The most bytes that this process has had in memory; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def said_by(*command: str) -> str:
    """What a program of the system prints, without spaces around it; nothing if it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
