"""An Ascend NPU as a device. Tested against the vendor's interface; not run on the hardware yet."""

import torch

from omnitts_cli.devices.accelerator import Accelerator
from omnitts_cli.devices.device import Stream
from omnitts_cli.devices.npu import PACKAGE, versions
from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import choose
from omnitts_cli.kernels.hardware import Hardware
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.settings.environment import variable

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


class NPUDevice(Accelerator):
    """`index` counts the devices that ASCEND_RT_VISIBLE_DEVICES leaves visible."""

    few_graphs = True
    hardware = Hardware("npu")
    waited = "synchroniz"

    def __init__(self, index: int = 0) -> None:
        self.api = versions.require().npu
        count = self.api.device_count()
        if index >= count:
            names = ", ".join(f"npu:{i} ({self.api.get_device_name(i)})" for i in range(count)) or "none"
            hidden = f" ({VISIBLE}={shown})" if (shown := variable(VISIBLE)) else ""
            raise DeviceError(f"npu:{index} does not exist; visible here: {names}{hidden}", hint="npu-smi info")
        self.name = f"npu:{index}"
        self.card = self.api.get_device_name(index)
        self.torch_device = torch.device("npu", index)
        # cards without bfloat16 speak in float32: the predictor overflows in float16
        self.dtype = torch.bfloat16 if self.api.is_bf16_supported() else torch.float32
        self.api.set_device(self.torch_device)

    def ops(self) -> Ops:
        from omnitts_cli.devices.npu import operators

        return choose.ops(self.hardware, {"operators": operators})

    def versions(self) -> list[str]:
        return [self.card, f"torch {torch.__version__}", f"{PACKAGE} {versions.installed()}"]

    def make_exact(self) -> None:
        raise DeviceError(f"--exact is not possible on {self.name}", hint="leave out --exact   or   -d cpu")

    def stream(self, urgent: bool = False) -> Stream:
        from omnitts_cli.devices.npu.stream import NPUStream

        return NPUStream(self.torch_device, urgent)

    def is_out_of_memory(self, error: BaseException) -> bool:
        """torch_npu has no class of its own for it, and says so in these words."""
        return isinstance(error, torch.OutOfMemoryError) or (
            isinstance(error, RuntimeError) and "NPU out of memory" in str(error)
        )
