"""Lanes of an NPU: its streams, its graphs, and pinned memory for what comes back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch_npu
from torch import Tensor

from omnitts_cli.errors import DeviceError

NO_STREAMS = "207008"
"""The runtime's error when a recording wants more of the card's streams than are left."""

WARM_UPS = 2
"""Runs before a capture: operators choose their tiling and allocate workspaces on first use."""


class NPUFetch:
    """Owns its pinned buffers until it is dropped, so nobody rewrites what a reader may still see."""

    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        self._buffers = [torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in tensors]
        for buffer, tensor in zip(self._buffers, tensors, strict=True):
            buffer.copy_(tensor, non_blocking=True)
        self._event = torch_npu.npu.Event(blocking=True)
        self._event.record()

    def done(self) -> bool:
        return self._event.query()

    def wait(self) -> list[np.ndarray]:
        self._event.synchronize()
        return [buffer.numpy().copy() for buffer in self._buffers]


class NPULane:
    """One stream with a graph memory pool of its own: graphs of one pool must not run side by side."""

    def __init__(self, device: torch.device, urgent: bool) -> None:
        self._stream = torch_npu.npu.Stream(device=device, priority=-1 if urgent else 0)
        self._pool = torch_npu.npu.graph_pool_handle()
        self._entered: list[torch_npu.npu.StreamContext] = []

    def __enter__(self) -> NPULane:
        context = torch_npu.npu.stream(self._stream)
        context.__enter__()
        self._entered.append(context)
        return self

    def __exit__(self, *exc: object) -> None:
        self._entered.pop().__exit__(*exc)

    def mark(self) -> torch_npu.npu.Event:
        event = torch_npu.npu.Event()
        event.record(self._stream)
        return event

    def wait_for(self, mark: object) -> None:
        assert isinstance(mark, torch_npu.npu.Event)
        self._stream.wait_event(mark)

    def adopt(self, *tensors: Tensor) -> None:
        for tensor in tensors:
            tensor.record_stream(self._stream)

    def fetch(self, *tensors: Tensor) -> NPUFetch:
        with self:
            return NPUFetch(tensors)

    def capture(self, step: Callable[[], None]) -> Callable[[], None]:
        """No operator of ours is given lengths by the host, so a replay needs no `graph.update` before it."""
        torch_npu.npu.synchronize()  # the step's buffers were made in another stream
        with self:
            for _ in range(WARM_UPS):
                step()
        torch_npu.npu.synchronize()
        graph = torch_npu.npu.NPUGraph()
        try:
            with torch_npu.npu.graph(graph, pool=self._pool, stream=self._stream):
                step()
        except RuntimeError as error:
            if NO_STREAMS not in str(error):
                raise
            raise DeviceError(
                "the NPU has no streams left to record another step with",
                hint="fewer sizes to record: a smaller -b or --chunk; a newer driver has more streams",
                cause=str(error).splitlines()[0],
            ) from None

        def replay() -> None:
            with self:
                graph.replay()

        return replay
