"""The end of the codec on Hopper: three residual units of 96 channels and the closing convolution (`codec_last.cu`).

It reads the result of the last rise, before the snake. Intermediate results stay on the multiprocessor, so a column is
read once and only its sample is written.
"""

import functools
from collections.abc import Sequence
from ctypes import c_int
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from omnitts_cli.kernels.cuda.codec_tiles import UNITS, by_thread, order, packed
from omnitts_cli.kernels.cuda.nvrtc import CompileError, Kernel, structure
from omnitts_cli.kernels.ops import Product, Unit

HERE = Path(__file__).parent
CHANNELS, TAPS, DILATIONS = 96, 7, (1, 3, 9)
COLUMNS = 192
"""Columns that a program computes at once."""
STAGES = 4
ROWS = (199, 212, 252)
"""Rows of shared memory for the columns of each unit."""


_Arguments = structure(
    "_Arguments",
    "x second third end residual weights factors closing parts",
    ("columns", c_int),
    ("turns", c_int),
)


_Sum = structure("_Sum", "parts bias sound", ("columns", c_int), ("count", c_int), ("past", c_int))


def shared_bytes() -> int:
    """Shared memory, as the kernel lays it out."""
    factors, closing, barriers = (2 + 3 * 6) * CHANNELS * 4, CHANNELS * 16 * 2, 640
    return STAGES * TAPS * 16 * CHANNELS * 2 + factors + closing + barriers + sum(ROWS) * CHANNELS * 2


def packed_closing(weight: Tensor) -> Tensor:
    """The closing weights [taps, C] as [C / 8, 16, 8] float16: the rounded weights, then the remainders."""
    near = weight.half()
    both = torch.zeros(16, CHANNELS, dtype=torch.float16, device=weight.device)
    both[:TAPS], both[8 : 8 + TAPS] = near, (weight - near.float()).half()
    return both[:, order(CHANNELS).to(weight.device)].unflatten(1, (-1, 8)).transpose(0, 1).contiguous()


def packed_unit(conv: Product, point: Product) -> Tensor:
    """A unit: the convolution as [inputs / 16, taps, 2, outputs, 8], then the product as [inputs / 8, outputs, 8]."""
    places = order(CHANNELS).to(conv.weight.device)
    first = conv.weight[places].unflatten(1, (TAPS, -1, 2, 8)).permute(2, 1, 3, 0, 4)
    second = point.weight[places][:, places].unflatten(1, (-1, 8)).transpose(0, 1)
    return torch.cat([first.flatten(), second.flatten()])


_prepared: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def prepared(rise: Product, units: Sequence[Unit], closing: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, factors and closing weights as the kernel reads them; made once for each codec."""
    found = _prepared.get(closing)
    if found is None:
        weights = torch.cat([packed_unit(conv, point) for conv, point in units])
        assert rise.scale is not None and rise.inverse is not None
        first = [by_thread(row[:CHANNELS]) for row in (rise.scale, rise.inverse)]
        factors = torch.cat([*first, *(packed(UNITS[CHANNELS], conv, point)[1] for conv, point in units)])
        found = _prepared[closing] = weights, factors, packed_closing(closing)
        if closing.is_cuda:
            torch.cuda.current_stream().synchronize()  # the kernel reads them before it waits for earlier kernels
    return found


@functools.cache
def compiled(_device: int) -> tuple[Kernel, Kernel] | None:
    """The compiled kernels; None if they cannot be compiled or do not fit."""
    try:
        last = Kernel(HERE / "codec_last.cu", "last", {}, "sm_90a", 0, 512, shared_bytes(), early=True, cluster=2)
        return last, Kernel(HERE / "codec_sound.cu", "sound", {}, "sm_90a", 0, 256, 0, early=True)
    except CompileError:
        return None


def suits(rise: Product, units: Sequence[Unit], closing: Tensor) -> bool:
    """Whether the kernel supports these layers."""
    shapes = [conv.weight.shape == (CHANNELS, TAPS * CHANNELS) and conv.taps == TAPS for conv, _ in units]
    return (
        tuple(conv.dilation for conv, _ in units) == DILATIONS
        and all(shapes)
        and closing.shape == (TAPS, CHANNELS)
        and rise.activation == "snake"
        and all(layer.activation == "snake" and layer.bias is not None for unit in units for layer in unit)
    )


def launch(
    kernels: tuple[Kernel, Kernel],
    programs: int,
    tracks: Sequence[Tensor],
    parts: tuple[Tensor, Tensor, Tensor],
    residual: Tensor,
    closing: Tensor,
    bias: Tensor,
    sound: Tensor,
) -> None:
    """Launch both kernels, the first on at most `programs` multiprocessors. `prepared` returns `parts`; `residual`
    [B, columns, 96] float16 is the result of the rise."""
    streams, columns, _ = residual.shape
    products = torch.empty(streams, TAPS - 1 + columns, 8, device=residual.device)
    x, second, third, end = (track.data_ptr() for track in tracks)
    weights, factors, taps = (one.data_ptr() for one in parts)
    arguments = _Arguments(
        x=x, second=second, third=third, end=end, residual=residual.data_ptr(), weights=weights, factors=factors,
        closing=taps, parts=products.data_ptr(), columns=columns, turns=streams * columns // COLUMNS,
    )  # fmt: skip
    kernels[0].launch(arguments, programs // 2 * 2)
    count = streams * columns
    total = _Sum(products.data_ptr(), bias.data_ptr(), sound.data_ptr(), columns, count, TAPS - 1)
    kernels[1].launch(total, -(-count // 256))
