"""The CPU as a device for PyTorch: streams run at once, capture returns the step itself."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.devices.host import HostDevice, HostStream, omp_threads
from omnitts_cli.devices.system import physical_cores
from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import choose
from omnitts_cli.kernels.cpu import library, networks
from omnitts_cli.kernels.hardware import Hardware
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.settings import environment


class CPUStream(HostStream):
    """Work runs at once, in inference mode: skipping version counters saves about 5 % of a small op."""

    def __init__(self) -> None:
        super().__init__()
        self._entered: list[ExitStack] = []

    def __enter__(self) -> "CPUStream":
        with ExitStack() as entered:
            entered.enter_context(torch.inference_mode())
            entered.enter_context(np.errstate(all="ignore"))
            self._entered.append(entered.pop_all())
        return self

    def __exit__(self, *exc: Any) -> None:
        self._entered.pop().__exit__(*exc)


class CPUDevice(HostDevice):
    """`threads`: of torch's products; the rest as in HostDevice."""

    torch_device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self, threads: int | None = None, cores: int | None = None) -> None:
        torch.set_num_threads(threads or omp_threads() or physical_cores())
        super().__init__(torch.get_num_threads(), cores)
        networks.use_threads(None, self._cores)
        handles, off = library.handles(), environment.variable(environment.NATIVE) == "0"
        self.unloadable = None if off or handles else library.why_not()
        self.hardware = Hardware("cpu", libraries=frozenset(handles), off=off)
        self._ops = choose.ops(self.hardware, handles)

    def thread_count(self) -> int:
        return torch.get_num_threads()

    @property
    def _compiled(self) -> bool:
        return self._ops.eight is not None

    def ops(self) -> Ops:
        return self._ops

    def versions(self) -> list[str]:
        variant = "no compiled library"
        if self._compiled:  # compilers fuse products and sums of float32 differently
            variant = f"library for {library.usable()[0]} by {library.origin()[1]}"
        if self.exact and self.eight:  # the library alone calculates codes and sound
            return [variant]
        return [self.card, f"torch {torch.__version__}", variant]

    def make_exact(self) -> None:
        """Rows are computed one by one in the compiled library; torch's products of a batch round by its size.

        A codec that is not in that library, as Qwen3-Omni's, decodes one frame of one stream at a time.
        """
        if not self._compiled:
            raise DeviceError(
                "--exact on a CPU needs the compiled library, which is not in use",
                hint="python -m omnitts_cli.kernels.cpu   or   omnitts doctor --offline",
            )
        self.exact = True
        if self._ops.codec is not None:
            self._ops = replace(self._ops, codec=replace(self._ops.codec, one_by_one=True))

    def stream(self, urgent: bool = False) -> CPUStream:
        return CPUStream()

    def to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).clone()
