"""Large products and residual units of the codec on Hopper (`codec_resident.cu`, `codec_stream.cu`, `codec_deep.cu`).

A program (thread block) reads its columns of x once; the kernels in Triton read them once for each tap and tile of
outputs.
"""

import functools
from ctypes import c_int, c_int64
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from omnitts_cli.kernels.cuda.nvrtc import CompileError, Kernel, place, structure
from omnitts_cli.kernels.ops import Product

HERE = Path(__file__).parent
COLUMNS = 64
"""Columns of x for a group of four warps."""
MOST_DILATION = 9


@dataclass(frozen=True)
class Kind:
    """One compiled kernel. With `stages`, its weights are loaded in stages; else they stay in shared memory."""

    inputs: int
    outputs: int
    tile: int  # outputs computed at a time
    taps: int
    point: bool  # whether a second product follows
    adds: bool
    groups: int = 3
    stages: int = 0
    depth: int = 64  # inputs of a stage
    slice: int = 0  # outputs of the second product computed at a time, if fewer than `tile`
    in_turn: bool = True  # one group multiplies at a time; only without stages

    @property
    def weights(self) -> int:
        """The number of weights for `tile` outputs."""
        return (self.taps * self.inputs + self.point * self.tile) * self.tile

    @property
    def slices(self) -> int:
        """Tiles of outputs."""
        return self.outputs // self.tile

    @property
    def together(self) -> int:
        """Programs that share the weights they fetch (a cluster) or the columns they read."""
        return self.slices if not self.stages else 2 if self.slice else 1

    def shared_bytes(self) -> int:
        """Shared memory, as the kernels lay it out."""
        reach = (self.taps - 1) * (MOST_DILATION if self.point else 1)
        kept = (3 + 3 * self.point) * self.tile * 4
        if self.stages:
            rows = (self.groups * COLUMNS + reach) | 1
            return self.stages * self.tile * self.depth * 2 + kept * self.slices + 128 + rows * self.inputs * 2
        return self.weights * 2 + kept + 128 + self.groups * ((COLUMNS + reach) | 1) * self.inputs * 2


UNITS = {
    96: Kind(96, 96, 96, 7, point=True, adds=True),
    192: Kind(192, 192, 192, 7, point=True, adds=True, stages=5),
    384: Kind(384, 384, 384, 7, point=True, adds=True, groups=2, stages=3, depth=32, slice=64),
}
"""Residual units by channels."""
PRODUCTS = {
    (1, 384, 384, True): Kind(384, 384, 128, 1, point=False, adds=True, groups=2, in_turn=False),
    (2, 192, 288, False): Kind(192, 288, 96, 2, point=False, adds=False),
    (2, 384, 768, False): Kind(384, 768, 192, 2, point=False, adds=False, stages=3),
}
"""Products by taps, inputs, outputs, and whether a residual is added."""


_Arguments = structure(
    "_Arguments",
    "x weights factors residual wide out",
    *((name, c_int64) for name in ("residual_stride", "wide_stride", "out_stride")),
    *((name, c_int) for name in ("pitch", "columns", "blocks", "dilation", "keep")),
)


def order(outputs: int) -> Tensor:
    """The channel of each output of a product. A thread holds two of every eight outputs; in this order these are
    groups of four neighbouring channels."""
    n = torch.arange(outputs)
    pair, lane = n // 8 % 4, n % 8 // 2
    return n // 32 * 32 + pair // 2 * 16 + lane * 4 + pair % 2 * 2 + n % 2


def packed(kind: Kind, conv: Product, point: Product | None) -> tuple[Tensor, Tensor]:
    """For each tile of outputs: weights as [inputs / 8, outputs, 8]; bias, scale and inverse in the threads' order."""
    weights, factors = [], []
    for start in range(0, kind.outputs, kind.tile):
        places = order(kind.tile).to(conv.weight.device)
        parts = [conv.weight[start + places]]
        if point is not None:
            parts += point.weight[places][:, places].split(kind.slice or kind.tile)
        weights += [part.unflatten(1, (-1, 8)).transpose(0, 1).flatten() for part in parts]
        for layer in (conv,) if point is None else (conv, point):
            for row in (layer.bias, layer.scale, layer.inverse):
                assert row is not None
                factors.append(by_thread(row[start : start + kind.tile]))
    return torch.cat(weights), torch.cat(factors)


def by_thread(row: Tensor) -> Tensor:
    """One factor per channel, in the order in which the threads read them."""
    return row.view(-1, 2, 4, 4).permute(2, 0, 1, 3).flatten()


_packed: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def _prepared(kind: Kind, conv: Product, point: Product | None) -> tuple[Tensor, Tensor]:
    """`packed`, computed once for each layer."""
    found = _packed.get(conv.weight)
    if found is None:
        found = _packed[conv.weight] = packed(kind, conv, point)
        torch.cuda.current_stream().synchronize()  # the kernel reads them before it waits for earlier kernels
    return found


@functools.cache
def compiled(kind: Kind, _device: int) -> Kernel | None:
    """The compiled kernel; None if it cannot be compiled or does not fit."""
    defines = {
        "INPUTS": kind.inputs, "OUTPUTS": kind.outputs, "N": kind.tile, "TAPS": kind.taps, "POINT": int(kind.point),
        "ADDS": int(kind.adds),
    }  # fmt: skip
    if kind.stages:
        source, defines["STAGES"] = "codec_deep.cu" if kind.slice else "codec_stream.cu", kind.stages
    else:
        source, defines["GROUPS"], defines["TURNS"] = "codec_resident.cu", kind.groups, int(kind.in_turn)
    threads, together = 128 * kind.groups + 128, 2 if kind.slice else 1
    try:
        return Kernel(
            HERE / source, "tiles", defines, "sm_90a", 0, threads, kind.shared_bytes(), early=True, cluster=together
        )
    except CompileError:
        return None


@functools.cache
def processors(device: int) -> int:
    """Multiprocessors of a card."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def _launch(
    kind: Kind,
    x: Tensor,
    conv: Product,
    point: Product | None,
    residual: Tensor | None,
    wide: Tensor | None,
    out: Tensor | None,
    dry: bool,
) -> None:
    device, parts = x.get_device(), _prepared(kind, conv, point)
    kernel = compiled(kind, device)
    assert kernel is not None, "`compiled` has made it"
    if not dry:
        launch(kernel, kind, processors(device), parts, x, conv.dilation, residual, wide, out)


def launch(
    kernel: Kernel,
    kind: Kind,
    programs: int,
    parts: tuple[Tensor, Tensor],
    x: Tensor,
    dilation: int,
    residual: Tensor | None,
    wide: Tensor | None,
    out: Tensor | None,
) -> None:
    """Launch a kernel on at most `programs` multiprocessors; `parts` are what `packed` returns."""
    columns = x.shape[1] - (kind.taps - 1) * dilation
    arguments = _Arguments(
        x=x.data_ptr(), weights=parts[0].data_ptr(), factors=parts[1].data_ptr(),
        residual=place(residual), wide=place(wide),
        out=place(out), residual_stride=0 if residual is None else residual.stride(0),
        wide_stride=0 if wide is None else wide.stride(0), out_stride=0 if out is None else out.stride(0),
        pitch=x.shape[1], columns=columns, blocks=x.shape[0] * columns // COLUMNS, dilation=dilation,
        keep=int(wide is not None),
    )  # fmt: skip
    kernel.launch(arguments, programs // kind.together * kind.together)


def product(
    x: Tensor, layer: Product, residual: Tensor | None, before: Tensor | None, out: Tensor | None, dry: bool = False
) -> None:
    """As in `CodecOps`. `dry`: the kernel is only compiled."""
    kind = PRODUCTS[layer.taps, x.shape[2], layer.weight.shape[0], residual is not None]
    _launch(kind, x, layer, None, residual, before, out, dry)


def residual_unit(
    x: Tensor, conv: Product, point: Product, residual: Tensor, keep: bool, out: Tensor, dry: bool = False
) -> None:
    """As in `CodecOps`. `dry`: the kernel is only compiled."""
    _launch(UNITS[residual.shape[2]], x, conv, point, residual, residual if keep else None, out, dry)
