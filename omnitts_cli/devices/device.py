"""Device, Lane, Fetch: what the engine asks of an accelerator, and nothing else.

Work goes into lanes. A lane keeps its own order; two lanes run side by side unless one waits for a
mark of the other. Results come back as fetches, which can be asked and awaited without stopping a lane.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.kernels.ops import Ops


class Fetch(Protocol):
    """Tensors on their way to the host."""

    def done(self) -> bool: ...

    def wait(self) -> list[np.ndarray]:
        """Once: the arrays belong to whoever waited for them."""
        ...


class Lane(Protocol):
    """An ordered queue of device work. `with lane:` sends what is issued inside to it."""

    def __enter__(self) -> Lane: ...

    def __exit__(self, *exc: object) -> None: ...

    def mark(self) -> object:
        """A point behind everything issued so far."""
        ...

    def wait_for(self, mark: object) -> None:
        """What is issued from now on comes after the mark, which may be of another lane."""
        ...

    def adopt(self, *tensors: Tensor) -> None:
        """Tensors of another lane that this lane's work reads: their memory stays until it has."""
        ...

    def fetch(self, *tensors: Tensor) -> Fetch:
        """Copy to the host behind the work issued so far, without stopping for it."""
        ...

    def capture(self, step: Callable[[], None]) -> Callable[[], None]:
        """Record a step of fixed shapes and addresses; what comes back replays it in this lane."""
        ...


class Device(Protocol):
    name: str  # as the user says it: "cpu", "cuda:0"
    card: str  # as the hardware calls itself
    torch_device: torch.device
    dtype: torch.dtype  # of the language side, unless the user says otherwise
    captures: bool  # whether a captured step is faster than the step itself
    pads: bool  # whether batches are padded to few bucket sizes
    few_graphs: bool  # whether recordings are scarce, so that fewer sizes are recorded

    def ops(self) -> Ops: ...

    def lane(self, urgent: bool = False) -> Lane: ...

    def to_device(self, array: np.ndarray) -> Tensor:
        """A copy on the device, without stopping a lane; in order with the lane it is issued in."""
        ...

    def settle(self) -> None:
        """Wait for everything; at start-up and for measurements only."""
        ...

    def free_bytes(self) -> int: ...

    def peak_bytes(self) -> int: ...

    def is_out_of_memory(self, error: BaseException) -> bool: ...

    def quiet(self) -> AbstractContextManager[None]:
        """Raise inside if the host waits for the device other than through a fetch (for tests)."""
        ...

    def watched(self) -> AbstractContextManager[Callable[[], int | None]]:
        """Count inside how often the host did; the count is None where nobody can tell (for measurements)."""
        ...
