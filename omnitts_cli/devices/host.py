"""The host: its processor, its cores, and what a container leaves of them."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from omnitts_cli.settings import environment

CONTAINER = Path("/sys/fs/cgroup/cpu.max")


def processor() -> str:
    """What the processor calls itself."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):  # another system, or a processor that tells less
        return platform.processor() or platform.machine()


def omp_threads() -> int | None:
    value = environment.variable("OMP_NUM_THREADS") or ""
    return int(value) if value.isdecimal() and 0 < int(value) <= 1024 else None


def physical_cores() -> int:
    """Hyper-threads share one vector unit, so more threads than cores slow the products down."""
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
    """Cores' worth of time that a container may use; more threads than that would be put aside in turns."""
    try:
        most, period = CONTAINER.read_text().split()
        return max(1, round(int(most) / int(period)))
    except (OSError, ValueError):  # no container, or "max"
        return sys.maxsize
