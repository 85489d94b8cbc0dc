"""An Ascend NPU as a device. Held to the vendor's interface by tests; nobody has run it on the hardware yet."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.devices.device import Lane
from omnitts_cli.devices.npu import versions
from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.settings import variable

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


class NPUDevice:
    """`index` counts the devices that ASCEND_RT_VISIBLE_DEVICES leaves visible."""

    captures = True
    pads = True
    few_graphs = True

    def __init__(self, index: int = 0) -> None:
        self._npu = versions.require().npu
        count = self._npu.device_count()
        if index >= count:
            names = ", ".join(f"npu:{i} ({self._npu.get_device_name(i)})" for i in range(count)) or "none"
            hidden = f" ({VISIBLE}={shown})" if (shown := variable(VISIBLE)) else ""
            raise DeviceError(f"npu:{index} does not exist; visible here: {names}{hidden}", hint="npu-smi info")
        self.name = f"npu:{index}"
        self.card = self._npu.get_device_name(index)
        self.torch_device = torch.device("npu", index)
        # cards without bfloat16 speak in float32: the predictor overflows in float16
        self.dtype = torch.bfloat16 if self._npu.is_bf16_supported() else torch.float32
        self._npu.set_device(self.torch_device)

    def ops(self) -> Ops:
        from omnitts_cli.devices.npu.operators import OPS

        return OPS

    def lane(self, urgent: bool = False) -> Lane:
        from omnitts_cli.devices.npu.lane import NPULane

        return NPULane(self.torch_device, urgent)

    def to_device(self, array: np.ndarray) -> Tensor:
        # the pinned allocator keeps the block until the copy has run
        pinned = torch.from_numpy(np.ascontiguousarray(array)).pin_memory()
        return pinned.to(self.torch_device, non_blocking=True)

    def settle(self) -> None:
        self._npu.synchronize(self.torch_device)

    def free_bytes(self) -> int:
        return self._npu.mem_get_info(self.torch_device)[0]

    def peak_bytes(self) -> int:
        return self._npu.max_memory_allocated(self.torch_device)

    def is_out_of_memory(self, error: BaseException) -> bool:
        """torch_npu has no class of its own for it, and says so in these words."""
        return isinstance(error, torch.OutOfMemoryError) or (
            isinstance(error, RuntimeError) and "NPU out of memory" in str(error)
        )

    @contextmanager
    def quiet(self) -> Iterator[None]:
        before = self._npu.get_sync_debug_mode()
        self._npu.set_sync_debug_mode("error")
        try:
            yield
        finally:
            self._npu.set_sync_debug_mode(before)

    @contextmanager
    def watched(self) -> Iterator[Callable[[], int | None]]:
        before = self._npu.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # by itself Python tells each place only once
            self._npu.set_sync_debug_mode("warn")
            try:
                yield lambda: sum("synchroniz" in str(warning.message) for warning in caught)
            finally:
                self._npu.set_sync_debug_mode(before)
