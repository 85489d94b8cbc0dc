"""Accelerator: a device whose torch package has the interface of torch.cuda; the code that CUDA and the NPU share.

`api` is that package. A subclass names it and adds what only its own hardware does.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

WARM_UPS = 2
"""Runs before a capture: libraries choose algorithms and allocate workspaces on first use."""


class PinnedFetch:
    """Copies into pinned buffers of its own, which are never written again."""

    def __init__(self, api: Any, tensors: tuple[Tensor, ...]) -> None:
        self._buffers = [torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in tensors]
        for buffer, tensor in zip(self._buffers, tensors, strict=True):
            buffer.copy_(tensor, non_blocking=True)
        self._event = api.Event(blocking=True)
        self._event.record()

    def done(self) -> bool:
        return self._event.query()

    def result(self) -> list[np.ndarray]:
        self._event.synchronize()
        return [buffer.numpy() for buffer in self._buffers]  # no copy: an array keeps its buffer alive


class AcceleratorStream:
    """One stream with its own graph memory pool: graphs that share a pool must not run concurrently."""

    api: Any
    new_graph: Callable[[], Any]

    def __init__(self, device: torch.device, urgent: bool) -> None:
        self._stream = self.api.Stream(device=device, priority=-1 if urgent else 0)
        self._pool = self.api.graph_pool_handle()
        self._entered: list[Any] = []

    def __enter__(self) -> Self:
        context = self.api.stream(self._stream)
        context.__enter__()
        self._entered.append(context)
        return self

    def __exit__(self, *exc: object) -> None:
        self._entered.pop().__exit__(*exc)

    def record_event(self) -> object:
        event = self.api.Event()
        event.record(self._stream)
        return event

    def wait_event(self, event: object) -> None:
        assert isinstance(event, self.api.Event)
        self._stream.wait_event(event)

    def keep_alive(self, *tensors: Tensor) -> None:
        for tensor in tensors:
            tensor.record_stream(self._stream)

    def follow(self, other: Self, *tensors: Tensor) -> None:
        self.keep_alive(*tensors)
        self.wait_event(other.record_event())

    def fetch(self, *tensors: Tensor) -> PinnedFetch:
        with self:
            return PinnedFetch(self.api, tensors)

    def hurry(self, fetch: PinnedFetch) -> None:
        while not fetch.done():  # a blocking event wakes the thread 0.15 ms late
            time.sleep(0)  # other threads may take Python's lock

    def capture(self, step: Callable[[], None], keeps: bool = False) -> Callable[[], None]:
        self.api.synchronize()  # the step's buffers were created in another stream
        with self, nullcontext() if keeps else self._into_pool():
            for _ in range(WARM_UPS):
                step()
        self.api.synchronize()
        graph = self.new_graph()
        self._record(graph, step)

        def replay() -> None:
            with self:
                graph.replay()

        return replay

    def _into_pool(self) -> AbstractContextManager[None]:
        """In this context, memory comes from the pool of the graphs, so that a capture reuses that of its warm-ups.
        Only for steps that keep nothing: the pool has the temporary tensors of graphs captured before."""
        return nullcontext()

    def _record(self, graph: Any, step: Callable[[], None]) -> None:
        # another model of this process may be speaking; its thread may still query its own events
        with self.api.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            step()


class Accelerator:
    """The part of a Device that is the same for both."""

    captures = True
    pads = True
    api: Any
    torch_device: torch.device
    waited: str  # part of the warning that the package gives when the host has waited
    most_bytes: int | None = None
    _free_before = 0  # when the limit was set

    def workers(self) -> None:
        return None

    def to_device(self, array: np.ndarray) -> Tensor:
        # the pinned allocator keeps the block until the copy has run
        pinned = torch.from_numpy(np.ascontiguousarray(array)).pin_memory()
        return pinned.to(self.torch_device, non_blocking=True)

    def synchronize(self) -> None:
        self.api.synchronize(self.torch_device)

    def limit(self, size_bytes: int | None) -> None:
        self.most_bytes = size_bytes
        self._free_before = self.api.mem_get_info(self.torch_device)[0]

    def free_bytes(self) -> int:
        free = self.api.mem_get_info(self.torch_device)[0]
        return free if self.most_bytes is None else max(0, min(free, self.most_bytes - (self._free_before - free)))

    def peak_bytes(self) -> int:
        return self.api.max_memory_allocated(self.torch_device)

    @contextmanager
    def count_syncs(self) -> Iterator[Callable[[], int | None]]:
        before = self.api.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # by default Python shows each place only once
            self.api.set_sync_debug_mode("warn")
            try:
                yield lambda: sum(self.waited in str(warning.message) for warning in caught)
            finally:
                self.api.set_sync_debug_mode(before)
