"""Convolutions over time as 2D convolutions of height 1, channels-last, with channels in multiples of eight.

With these, cuDNN uses the tensor cores well. With [B, C, T] it rearranges every input and output, and with odd numbers
of channels it falls back to scalar code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.models.codec_layers import CausalConv, CausalRise, Snake

EVEN = 8


def channels_last(module: nn.Module, padded: bool = False) -> None:
    """Change how the module's convolutions compute; weights stay as they are.

    `padded`: activations keep their padding channels between the convolutions. Layers between must map zeros to zeros,
    and the last convolution's channels must be a multiple of eight.
    """
    for found in module.modules():
        if type(found) is nn.Conv1d and found.groups == 1:
            found.__class__ = _Padded if padded else _Conv
        elif type(found) is nn.ConvTranspose1d and found.groups == 1:
            found.__class__ = _WideRise


def even_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...] = (1, 1),
    keep: bool = False,
) -> Tensor:
    """conv2d of x [B, C, H, W], with channels padded to multiples of eight; `keep` leaves the padding in the output."""
    outputs, inputs = weight.shape[:2]
    wide = F.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % EVEN)) if x.shape[1] % EVEN else x
    wide = wide.contiguous(memory_format=torch.channels_last)
    more, less = -outputs % EVEN, wide.shape[1] - inputs
    if more or less:
        weight = F.pad(weight, (0, 0, 0, 0, 0, less, 0, more))
        bias = None if bias is None else F.pad(bias, (0, more))
    made = F.conv2d(wide, weight, bias, stride, padding, dilation)
    return made if keep or not more else made[:, :outputs]


def evened(owner: nn.Module, weight: Tensor) -> Tensor:
    """A weight or bias of a padded convolution with its padding, which is otherwise added at each call; others
    unchanged."""
    if not isinstance(owner, _Padded):
        return weight
    more = -weight.shape[0] % EVEN
    if weight.ndim == 1:
        return F.pad(weight, (0, more))
    return F.pad(weight, (0, 0, 0, -weight.shape[1] % EVEN, 0, more)).transpose(1, 2).contiguous().transpose(1, 2)


class _Conv(nn.Conv1d):
    keep = False

    def forward(self, x: Tensor) -> Tensor:
        (stride,), (dilation,) = self.stride, self.dilation
        weight, moved = self.weight[:, :, None], (0, int(self.padding[0]))
        # not indexed: the gradient of an index would be written into zeros of another layout
        return even_conv(x.unsqueeze(2), weight, self.bias, (1, stride), moved, (1, dilation), self.keep).squeeze(2)


class _Padded(_Conv):
    keep = True


class _WideRise(nn.ConvTranspose1d):
    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        (stride,), (extra,), (dilation,) = self.stride, self.output_padding, self.dilation
        moved = (0, int(self.padding[0]))
        image = x.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        return F.conv_transpose2d(
            image, self.weight[:, :, None], self.bias, (1, stride), moved, (0, extra), 1, (1, dilation)
        ).squeeze(2)


def from_silence(decoder: nn.Module, compiled: bool) -> None:
    """Change how a decoder computes when every sound starts from silence: histories are neither read nor returned.

    Padding keeps the memory layout of the sound; concatenating a history would not. `compiled`: compile the snake,
    which otherwise takes a dozen passes over memory.
    """
    if compiled:
        from omnitts_cli.training.compiled import CompiledSnake
    for found in decoder.modules():
        if type(found) is CausalConv and found.conv.groups == 1:
            found.__class__ = _FromSilence
        elif type(found) is CausalRise:
            found.__class__ = _RiseFromSilence
        elif type(found) is Snake and compiled:
            found.__class__ = CompiledSnake


class _FromSilence(CausalConv):
    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        image = F.pad(_image(x), (past.shape[-1], 0))
        (dilation,) = self.conv.dilation
        return even_conv(image, self.conv.weight[:, :, None], self.conv.bias, 1, (0, 0), (1, dilation)).squeeze(2), past


class _RiseFromSilence(CausalRise):
    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        made = F.conv_transpose2d(_image(x), self.conv.weight[:, :, None], self.conv.bias, (1, self.rate))
        return F.pad(made, (0, x.shape[-1] * self.rate - made.shape[-1])).squeeze(2), past


def in_float32(modules: Iterable[nn.Module], device_type: str) -> None:
    """Make modules compute in float32, even under autocast."""
    for module in modules:
        module.forward = _precise(module.forward, device_type)


def _precise(forward: Callable[..., Any], device_type: str) -> Callable[..., Any]:
    def precise(*inputs: Tensor) -> Any:
        with torch.autocast(device_type, enabled=False):
            return forward(*(x.float() for x in inputs))

    return precise


def _image(x: Tensor) -> Tensor:
    return x.unsqueeze(2).contiguous(memory_format=torch.channels_last)
