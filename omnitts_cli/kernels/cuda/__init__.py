"""CUDA C++ kernels that are compiled at run time, for what Triton cannot express: persistent kernels, on Hopper.

* `predictor.cu`: the predictor's part of a frame.
* `talker.cu`: a step of the talker.
* `prefetched.cu`: some products.
* `attend.cu`: the predictor's attention; `attend_long.cu`: the talker's.
* `rows_*.cu`: layers for any number of rows.
* `codec_*.cu`: large products of the codec.

They suit the released shapes in bfloat16. kernels/choose.py says for which rows they are used; the kernels in
`kernels/triton` stand in where these cannot be compiled.
"""

import torch

from omnitts_cli.errors import DeviceError

THREADS = 384


class Overflow:
    """A flag in host memory, set by a kernel if a sum leaves the range of its fixed-point format."""

    def __init__(self) -> None:
        self._flag = torch.zeros(1, dtype=torch.int32, pin_memory=True)

    @property
    def address(self) -> int:
        """Its address for kernels."""
        return self._flag.data_ptr()

    def check(self) -> None:
        """Raise an error if the flag is set. Does not wait for the device."""
        if self._flag.item():
            raise DeviceError(
                "sums of this model exceed the range of the persistent kernels (8,192); the last sounds may be wrong",
                hint="set OMNITTS_NATIVE=0   (other kernels are used)",
            )
