"""Streams of an NPU: like those of any accelerator, except that captures can use up the card's streams.

No operator here takes lengths from the host, so a replay needs no `graph.update` before it.
"""

from collections.abc import Callable
from typing import Any

import torch_npu

from omnitts_cli.devices.accelerator import AcceleratorStream
from omnitts_cli.errors import DeviceError

NO_STREAMS = "207008"
"""The runtime's error when a recording wants more of the card's streams than are left."""


class NPUStream(AcceleratorStream):
    api, new_graph = torch_npu.npu, torch_npu.npu.NPUGraph

    def _record(self, graph: Any, step: Callable[[], None]) -> None:
        try:
            super()._record(graph, step)
        except RuntimeError as error:
            if NO_STREAMS not in str(error):
                raise
            raise DeviceError(
                "the NPU has no streams left to capture another graph",
                hint="use a smaller -b or --chunk to capture fewer graphs; newer drivers have more streams",
                cause=str(error).splitlines()[0],
            ) from None
