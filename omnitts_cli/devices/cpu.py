"""The CPU as a device: streams run at once, capture returns the step itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.devices.system import free_memory, peak_memory, physical_cores, processor
from omnitts_cli.devices.workers import Workers
from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import cpu
from omnitts_cli.kernels.cpu import library
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.settings import environment


def omp_threads() -> int | None:
    value = environment.variable("OMP_NUM_THREADS") or ""
    return int(value) if value.isdecimal() and 0 < int(value) <= 1024 else None


MOST_WORKERS = 4
"""The engine has no more jobs of the codec in flight."""


class CPUFetch:
    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        # numpy knows no bfloat16; a copy, because the next step writes where these tensors live
        self._arrays = [(t.float() if t.dtype == torch.bfloat16 else t).numpy().copy() for t in tensors]

    def done(self) -> bool:
        return True

    def wait(self, soon: bool = False) -> list[np.ndarray]:
        return self._arrays


class CPUStream:
    """Work runs at once, in inference mode: skipping version counters saves about 5 % of a small op.

    NumPy's warnings about NaN and infinity are off: the end of a frame finds them and the engine reports them.
    """

    def __init__(self) -> None:
        self._entered: list[ExitStack] = []

    def __enter__(self) -> CPUStream:
        with ExitStack() as entered:
            entered.enter_context(torch.inference_mode())
            entered.enter_context(np.errstate(all="ignore"))
            self._entered.append(entered.pop_all())
        return self

    def __exit__(self, *exc: Any) -> None:
        self._entered.pop().__exit__(*exc)

    def record_event(self) -> object:
        return None

    def wait_event(self, event: object) -> None:
        return None

    def keep_alive(self, *tensors: Tensor) -> None:
        return None

    def fetch(self, *tensors: Tensor) -> CPUFetch:
        return CPUFetch(tensors)

    def capture(self, step: Callable[[], None]) -> Callable[[], None]:
        return step


class CPUDevice:
    """`threads`: of torch's products; None: what OMP_NUM_THREADS says, else one per physical core.

    `cores`: how many may work at once; None: as many as `threads`.
    """

    name = "cpu"
    torch_device = torch.device("cpu")
    dtype = torch.float32
    captures = False
    pads = False
    few_graphs = False
    exact = False
    eight = False
    """Whether the language side has weights in 8 bits."""

    def __init__(self, threads: int | None = None, cores: int | None = None) -> None:
        torch.set_num_threads(threads or omp_threads() or physical_cores())
        self._cores = cores or torch.get_num_threads()
        wanted = environment.variable(environment.NATIVE) != "0"
        found = cpu.native() if wanted else None
        self._ops = found or cpu.OPS
        self.unloadable = library.why_not() if wanted and found is None else None
        """Why the compiled library that is there is not in use."""

    @property
    def card(self) -> str:
        """The processor, and how many threads torch uses."""
        count = torch.get_num_threads()
        return f"{processor()}, {count} thread{'s' * (count != 1)}"

    def ops(self) -> Ops:
        return self._ops

    def versions(self) -> list[str]:
        variant = "no compiled library"
        if self._ops is not cpu.OPS:  # compilers fuse products and sums of float32 differently
            variant = f"library for {library.usable()[0]} by {library.origin()[1]}"
        if self.exact and self.eight:  # the library alone calculates codes and sound
            return [variant]
        return [self.card, f"torch {torch.__version__}", variant]

    def make_exact(self) -> None:
        """Rows are computed one by one in the compiled library; torch's products of a batch round by its size.

        A codec that is not in that library, as Qwen3-Omni's, decodes one frame of one stream at a time.
        """
        if self._ops is cpu.OPS:
            raise DeviceError(
                "--exact on a CPU needs the compiled library, which is not in use",
                hint="python -m omnitts_cli.kernels.cpu   or   omnitts doctor --offline",
            )
        self.exact = True
        if self._ops.codec is not None:
            self._ops = replace(self._ops, codec=replace(self._ops.codec, one_by_one=True))

    def stream(self, urgent: bool = False) -> CPUStream:
        return CPUStream()

    def workers(self) -> Workers | None:
        return Workers(min(self._cores, MOST_WORKERS)) if self._cores > 1 else None

    def to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).clone()

    def synchronize(self) -> None:
        return None

    def free_bytes(self) -> int:
        known = self.known_free_bytes()
        return 4 << 30 if known is None else known

    def known_free_bytes(self) -> int | None:
        """What is free, and what caches would give up; None where the system does not report it."""
        return free_memory()

    def peak_bytes(self) -> int:
        return peak_memory()

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        yield

    @contextmanager
    def count_syncs(self) -> Iterator[Callable[[], int | None]]:
        yield lambda: None
