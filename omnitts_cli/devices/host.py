"""The CPU as a device for the compiled library alone: work runs at once, on NumPy arrays. Does not import torch."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import numpy as np

from omnitts_cli.devices.system import free_memory, peak_memory, physical_cores, processor
from omnitts_cli.devices.workers import Workers
from omnitts_cli.kernels.arrays import read
from omnitts_cli.kernels.cpu import library, networks
from omnitts_cli.kernels.hardware import Hardware
from omnitts_cli.settings import environment


def omp_threads() -> int | None:
    value = environment.variable("OMP_NUM_THREADS") or ""
    return int(value) if value.isdecimal() and 0 < int(value) <= 1024 else None


MOST_WORKERS = 4
"""More would be idle: the engine has at most so many jobs of the codec in flight."""


class HostStream(nullcontext[Any]):
    """Work runs at once."""

    def record_event(self) -> object:
        return None

    def wait_event(self, event: object) -> None:
        return None

    def keep_alive(self, *arrays: Any) -> None:
        return None

    def follow(self, other: Self, *arrays: Any) -> None:
        return None

    def fetch(self, *arrays: Any) -> Future[list[np.ndarray]]:
        """Copies, because the next step writes where these arrays are."""
        copies = Future[list[np.ndarray]]()
        copies.set_result([read(array).copy() for array in arrays])
        return copies

    def hurry(self, fetch: object) -> None:
        return None

    def capture(self, step: Callable[[], None], keeps: bool = False) -> Callable[[], None]:
        return step


class HostDevice:
    """`threads`: of products; None: what OMP_NUM_THREADS says, else one per physical core.

    `cores`: how many may work at once; None: as many as `threads`.
    """

    name = "cpu"
    torch_device: Any = None
    dtype: Any = np.float32
    captures = False
    pads = False
    few_graphs = False
    exact = False
    eight = False
    """Whether the language side has weights in 8 bits."""
    unloadable: str | None = None
    """Why a compiled library that was found is not in use."""
    most_bytes: int | None = None

    def __init__(self, threads: int | None = None, cores: int | None = None) -> None:
        self.threads = threads or omp_threads() or physical_cores()
        self._cores = cores or self.threads
        networks.use_threads(self.threads, self._cores)
        self.hardware = Hardware("cpu", libraries=frozenset(library.handles()))

    @property
    def card(self) -> str:
        """The processor, and how many threads multiply."""
        count = self.thread_count()
        return f"{processor()}, {count} thread{'s' * (count != 1)}"

    def thread_count(self) -> int:
        return self.threads

    def ops(self) -> Any:
        raise NotImplementedError("its models call the library themselves")

    def versions(self) -> list[str]:
        variant = f"library for {library.usable()[0]} by {library.origin()[1]}"
        return [variant] if self.exact and self.eight else [self.card, variant]

    def make_exact(self) -> None:
        """In the library, a row does not depend on the others of a call."""
        self.exact = True

    def stream(self, urgent: bool = False) -> HostStream:
        return HostStream()

    def workers(self) -> Workers | None:
        return Workers(min(self._cores, MOST_WORKERS)) if self._cores > 1 else None

    def to_device(self, array: np.ndarray) -> Any:
        return np.ascontiguousarray(array).copy()

    def synchronize(self) -> None:
        return None

    def limit(self, size_bytes: int | None) -> None:
        """The limit is kept by planning: what a process has allocated is not taken back."""
        self.most_bytes = size_bytes

    def free_bytes(self) -> int:
        known = self.known_free_bytes()
        free = 4 << 30 if known is None else known
        return free if self.most_bytes is None else max(0, min(free, self.most_bytes - peak_memory()))

    def known_free_bytes(self) -> int | None:
        """What is free, and what caches would give up; None where the system does not report it."""
        return free_memory()

    def peak_bytes(self) -> int:
        return peak_memory()

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)

    @contextmanager
    def count_syncs(self) -> Iterator[Callable[[], int | None]]:
        yield lambda: None
