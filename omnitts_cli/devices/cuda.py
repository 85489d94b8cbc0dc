"""CUDA as a device: streams as lanes, graphs as captured steps, pinned memory for what crosses over."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops

WARM_UPS = 2
"""Runs before a capture: libraries choose algorithms and allocate workspaces on first use."""

WAITED = "called a synchronizing CUDA operation"
"""Torch's warning. It also warns once that its counting is new, which is no wait."""

KERNELS_FROM = (8, 0)
"""Compute capability from which our own kernels are used: matrix units with float32 sums for bfloat16."""


class CUDAFetch:
    """Owns its pinned buffers until it is dropped, so nobody rewrites what a reader may still see."""

    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        self._buffers = [torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in tensors]
        for buffer, tensor in zip(self._buffers, tensors, strict=True):
            buffer.copy_(tensor, non_blocking=True)
        self._event = torch.cuda.Event(blocking=True)
        self._event.record()

    def done(self) -> bool:
        return self._event.query()

    def wait(self) -> list[np.ndarray]:
        self._event.synchronize()
        return [buffer.numpy().copy() for buffer in self._buffers]


class CUDALane:
    """One stream with a graph memory pool of its own: graphs of one pool must not run side by side."""

    def __init__(self, device: torch.device, urgent: bool) -> None:
        self._stream = torch.cuda.Stream(device, priority=-1 if urgent else 0)
        self._pool = torch.cuda.graph_pool_handle()
        self._entered: list[torch.cuda.StreamContext] = []

    def __enter__(self) -> CUDALane:
        context = torch.cuda.stream(self._stream)
        context.__enter__()
        self._entered.append(context)
        return self

    def __exit__(self, *exc: object) -> None:
        self._entered.pop().__exit__(*exc)

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event()
        event.record(self._stream)
        return event

    def wait_for(self, mark: object) -> None:
        assert isinstance(mark, torch.cuda.Event)
        self._stream.wait_event(mark)

    def adopt(self, *tensors: Tensor) -> None:
        for tensor in tensors:
            tensor.record_stream(self._stream)

    def fetch(self, *tensors: Tensor) -> CUDAFetch:
        with self:
            return CUDAFetch(tensors)

    def capture(self, step: Callable[[], None]) -> Callable[[], None]:
        torch.cuda.synchronize()  # the step's buffers were made in another stream
        with self:
            for _ in range(WARM_UPS):
                step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            step()

        def replay() -> None:
            with self:
                graph.replay()

        return replay


class CUDADevice:
    captures = True
    pads = True
    few_graphs = False

    def __init__(self, index: int = 0) -> None:
        if not torch.cuda.is_available():
            raise DeviceError(
                f"cuda:{index} is not usable: {unusable_reason()}",
                hint="omnitts doctor   or   -d cpu",
            )
        if index >= torch.cuda.device_count():
            names = ", ".join(f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count()))
            raise DeviceError(f"cuda:{index} does not exist; this machine has {names}", hint="-d cuda:0")
        self.name = f"cuda:{index}"
        self.card = torch.cuda.get_device_name(index)
        self.torch_device = torch.device("cuda", index)
        self.dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
        torch.cuda.set_device(self.torch_device)
        if self.ops().codec is None:
            # torch's own layers speak for the codec; TF32 keeps 10 bits of mantissa and is several times faster
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.backends.cudnn.allow_tf32 = True

    def ops(self) -> Ops:
        if torch.cuda.get_device_capability(self.torch_device) < KERNELS_FROM:
            return plain.OPS
        try:
            from omnitts_cli.kernels.triton import OPS
        except ImportError:  # a build of torch without Triton
            return plain.OPS
        return OPS

    def lane(self, urgent: bool = False) -> CUDALane:
        return CUDALane(self.torch_device, urgent)

    def to_device(self, array: np.ndarray) -> Tensor:
        # torch's pinned allocator keeps the block until the copy has run
        pinned = torch.from_numpy(np.ascontiguousarray(array)).pin_memory()
        return pinned.to(self.torch_device, non_blocking=True)

    def settle(self) -> None:
        torch.cuda.synchronize(self.torch_device)

    def free_bytes(self) -> int:
        return torch.cuda.mem_get_info(self.torch_device)[0]

    def peak_bytes(self) -> int:
        return torch.cuda.max_memory_allocated(self.torch_device)

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, torch.cuda.OutOfMemoryError)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)

    @contextmanager
    def watched(self) -> Iterator[Callable[[], int | None]]:
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # by itself Python tells each place only once
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield lambda: sum(WAITED in str(warning.message) for warning in caught)
            finally:
                torch.cuda.set_sync_debug_mode(before)


def unusable_reason() -> str:
    """Why torch sees no CUDA device, in words for `doctor` and errors."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} was built without CUDA"
    if torch.cuda.device_count() == 0:
        return f"torch {torch.__version__} (CUDA {torch.version.cuda}) finds no device or driver"
    return f"torch {torch.__version__} cannot use the driver"
