"""Convolutions over time as convolutions over images of height 1, laid out channels-last, of even widths.

cuDNN keeps its tensor cores busy with that layout and with channels in multiples of eight. With [B, C, T] it rearranges
every input and output, and of odd widths it computes one number at a time.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EVEN = 8


def channels_last(module: nn.Module, padded: bool = False) -> None:
    """Change how the module's convolutions compute; weights stay as they are.

    `padded`: activations keep their channels of zeros between the convolutions. What stands between must keep zeros,
    and the last convolution must have an even width.
    """
    for found in module.modules():
        if type(found) is nn.Conv1d and found.groups == 1:
            found.__class__ = _Padded if padded else _Conv
        elif type(found) is nn.ConvTranspose1d and found.groups == 1:
            found.__class__ = _Rise


def even_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...] = (1, 1),
    keep: bool = False,
) -> Tensor:
    """conv2d of x [B, C, H, W], padded to even widths; `keep` leaves the channels of zeros that are made."""
    outputs, inputs = weight.shape[:2]
    wide = F.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % EVEN)) if x.shape[1] % EVEN else x
    wide = wide.contiguous(memory_format=torch.channels_last)
    more, less = -outputs % EVEN, wide.shape[1] - inputs
    if more or less:
        weight = F.pad(weight, (0, 0, 0, 0, 0, less, 0, more))
        bias = None if bias is None else F.pad(bias, (0, more))
    made = F.conv2d(wide, weight, bias, stride, padding, dilation)
    return made if keep or not more else made[:, :outputs]


class _Conv(nn.Conv1d):
    keep = False

    def forward(self, x: Tensor) -> Tensor:
        (stride,), (padding,), (dilation,) = self.stride, self.padding, self.dilation
        weight, moved = self.weight[:, :, None], (0, int(padding))
        return even_conv(x[:, :, None], weight, self.bias, (1, stride), moved, (1, dilation), self.keep)[:, :, 0]


class _Padded(_Conv):
    keep = True


class _Rise(nn.ConvTranspose1d):
    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        (stride,), (padding,), (extra,), (dilation,) = self.stride, self.padding, self.output_padding, self.dilation
        image = x[:, :, None].contiguous(memory_format=torch.channels_last)
        return F.conv_transpose2d(
            image, self.weight[:, :, None], self.bias, (1, stride), (0, int(padding)), (0, extra), 1, (1, dilation)
        )[:, :, 0]
