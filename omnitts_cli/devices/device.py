"""Device, Stream, Fetch: what the engine asks of an accelerator, and nothing else.

Work is issued into streams. A stream keeps its own order; two streams run concurrently unless one waits for an event
of the other. Results come back as fetches, which can be polled and awaited without stopping a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from omnitts_cli.devices.workers import Workers
from omnitts_cli.kernels.hardware import Hardware
from omnitts_cli.kernels.ops import Ops

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Fetch(Protocol):
    """Tensors on their way to the host. A Future of Python's is one."""

    def done(self) -> bool:
        """Whether `result` would return at once."""
        ...

    def result(self) -> list[np.ndarray]:
        """Waits for the arrays, which belong to the caller; call it once."""
        ...


class Stream(Protocol):
    """An ordered queue of device work. `with stream:` issues the work inside into it."""

    def __enter__(self) -> Stream: ...

    def __exit__(self, *exc: object) -> None: ...

    def record_event(self) -> object:
        """An event that completes after everything issued so far."""
        ...

    def wait_event(self, event: object) -> None:
        """Work issued from now on runs after the event, which may belong to another stream."""
        ...

    def keep_alive(self, *tensors: Tensor) -> None:
        """Tensors of another stream that this stream reads: their memory is not reused before it has."""
        ...

    def follow(self, other: Self, *tensors: Tensor) -> None:
        """Work issued from now on runs after all that `other` has so far, and reads these tensors of it."""
        ...

    def fetch(self, *tensors: Tensor) -> Fetch:
        """Copy to the host after the work issued so far, without stopping the stream."""
        ...

    def hurry(self, fetch: Any) -> None:
        """Wait for what this stream fetches, and rather keep a core busy than wake up later."""
        ...

    def capture(self, step: Callable[[], None], keeps: bool = False) -> Callable[[], None]:
        """Record a step of fixed shapes and addresses; returns a function that replays it in this stream.

        `keeps`: the first run makes tensors that later runs read, such as an optimiser's moments. Their memory must not
        come from that of other graphs' temporary tensors, which a replay overwrites."""
        ...


class Device(Protocol):
    """One accelerator, or the CPU."""

    name: str  # as the user says it: "cpu", "cuda:0"
    torch_device: torch.device
    dtype: torch.dtype  # of the language side, unless the user chooses another
    captures: bool  # whether a captured step is faster than the step itself
    pads: bool  # whether batches are padded to few bucket sizes
    few_graphs: bool  # whether graphs are scarce, so that fewer sizes are captured
    most_bytes: int | None  # what `limit` has set

    @property
    def card(self) -> str:
        """What the hardware calls itself."""
        ...

    @property
    def hardware(self) -> Hardware:
        """What the choice of kernels depends on."""

    def ops(self) -> Ops:
        """The fastest operations of this device."""
        ...

    def versions(self) -> list[str]:
        """The hardware, and the versions of what computes on it, as far as the bits of a sound depend on them."""

    def make_exact(self) -> None:
        """From now on the operations give a row the same bits in a batch of any size; an error where none do."""

    def stream(self, urgent: bool = False) -> Stream:
        """A new stream; an urgent one has a higher priority."""
        ...

    def workers(self) -> Workers | None:
        """Threads for work in C that would keep the engine's own thread waiting; None where streams do without."""
        ...

    def to_device(self, array: np.ndarray) -> Tensor:
        """A copy on the device, asynchronous, in the order of the current stream."""
        ...

    def synchronize(self) -> None:
        """Wait for all streams; for start-up and measurements only."""
        ...

    def limit(self, size_bytes: int | None) -> None:
        """Use at most so many bytes; None: what is free."""
        ...

    def free_bytes(self) -> int:
        """Memory that is free now, and within the limit."""
        ...

    def peak_bytes(self) -> int:
        """The most memory that was in use."""
        ...

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether `error` says that memory ran out."""
        ...

    def count_syncs(self) -> AbstractContextManager[Callable[[], int | None]]:
        """Count how often the host waits for the device other than through a fetch; None where it cannot be known."""
        ...
