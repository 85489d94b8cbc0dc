"""Causal layers of the codec: convolutions, snake, and the blocks made of them.

Time is the last axis: x [B, C, T]. A layer with a history takes the tail of its earlier input as `past` and returns
(output, next past). A past of zeros is the start of a stream, so a whole clip and a stream are the same call. The size
of the tail is `past_shape`, (channels, length).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW = 64
"""Columns up to which a convolution is computed as one matrix product: library kernels first rearrange the weights,
which takes several times longer than the product with so few columns."""


def convolve(x: Tensor, conv: nn.Conv1d) -> Tensor:
    """conv(x) for stride 1 and no padding; x [B, C, columns]."""
    (reach,), (dilation,) = conv.kernel_size, conv.dilation
    columns = x.shape[-1] - (reach - 1) * dilation
    if columns > FEW or conv.groups > 1:
        return conv(x)
    x = x.transpose(1, 2)
    taps = [x[:, i * dilation : i * dilation + columns] for i in range(reach)]
    columns_of = torch.stack(taps, -1).flatten(2)  # [B, columns, C * reach], in the order of the weights
    return F.linear(columns_of, conv.weight.flatten(1), conv.bias).transpose(1, 2)


def spread(x: Tensor, conv: nn.ConvTranspose1d) -> Tensor:
    """conv(x) without the samples after the last input's own block; x [B, C, columns] -> [B, outputs, columns * rate].

    The kernel is a whole number of blocks of `rate` samples: each input adds to its own block and the next ones.
    """
    (rate,), columns = conv.stride, x.shape[-1]
    if columns > FEW:
        return conv(x)[..., : columns * rate]
    made = x.transpose(1, 2).flatten(0, 1) @ conv.weight.flatten(1)  # [B * columns, outputs * kernel]
    blocks = made.view(-1, columns, conv.out_channels, conv.kernel_size[0] // rate, rate).unbind(3)
    total = blocks[0]
    for late in range(1, len(blocks)):
        total = total + F.pad(blocks[late][:, : columns - late], (0, 0, 0, 0, late, 0))  # [B, columns, outputs, rate]
    return total.transpose(1, 2).flatten(2) + conv.bias[:, None]


class CausalConv(nn.Module):
    """Stride 1: output t depends on inputs t - (kernel - 1) * dilation .. t."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.past_shape = (inputs, (kernel - 1) * dilation)

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, inputs, T] -> [B, outputs, T], next past."""
        whole = torch.cat([past, x], -1)
        # a copy, so that a stream does not keep the whole chunk alive for its last few samples
        return convolve(whole, self.conv), whole[..., x.shape[-1] :].clone()


class CausalRise(nn.Module):
    """A transposed convolution that makes `rate` samples of each input and adds to those of the next inputs."""

    def __init__(self, inputs: int, outputs: int, blocks: int, rate: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, blocks * rate, rate)
        self.rate = rate
        self.past_shape = (inputs, blocks - 1)

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, inputs, T] -> [B, outputs, T * rate], next past."""
        whole = torch.cat([past, x], -1)
        # the first samples belong to the past and were returned by the last call
        return spread(whole, self.conv)[..., past.shape[-1] * self.rate :], whole[..., x.shape[-1] :].clone()


def snake(x: Tensor, scale: Tensor, inverse: Tensor) -> Tensor:
    """x + sin^2(scale * x) * inverse; scale and inverse [C, 1] float32. The sine of a bfloat16 is noise."""
    wide = x.float()
    return torch.addcmul(wide, (wide * scale).sin().square(), inverse).to(x.dtype)


class Snake(nn.Module):
    """Snake with a frequency and an amplitude per channel, both stored as logarithms."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))
        self.scale: Tensor | None
        self.inverse: Tensor | None
        self.register_buffer("scale", None, persistent=False)
        self.register_buffer("inverse", None, persistent=False)

    def factors(self) -> tuple[Tensor, Tensor]:
        """Scale and inverse, [C, 1] float32 each."""
        scale, height = self.alpha.float().exp(), self.beta.float().exp()
        return scale[:, None], (1.0 / (height + 1e-9))[:, None]

    def freeze_factors(self) -> None:
        """Compute the factors once. Later changes of the weights are not seen until `train()`."""
        with torch.no_grad():
            self.scale, self.inverse = self.factors()

    def train(self, mode: bool = True) -> Snake:
        """As any module; training drops the frozen factors."""
        if mode:
            self.scale = self.inverse = None
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, C, T] -> the same."""
        if self.scale is None or self.inverse is None:
            return snake(x, *self.factors())
        return snake(x, self.scale, self.inverse)


class ResidualUnit(nn.Module):
    """x + pointwise(snake(dilated(snake(x)))); its history is that of the dilated convolution."""

    def __init__(self, channels: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.before, self.after = Snake(channels), Snake(channels)
        self.wide = CausalConv(channels, channels, kernel, dilation)
        self.point = nn.Conv1d(channels, channels, 1)
        self.past_shape = self.wide.past_shape

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, C, T] -> the same, next past."""
        wide, past = self.wide(self.before(x), past)
        return x + self.point(self.after(wide)), past


class ConvNeXt(nn.Module):
    """A depthwise convolution and an MLP over channels, added to the input."""

    def __init__(self, channels: int, kernel: int, expansion: int, eps: float) -> None:
        super().__init__()
        self.depthwise = CausalConv(channels, channels, kernel, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=eps)
        self.up = nn.Linear(channels, expansion * channels)
        self.down = nn.Linear(expansion * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 1e-2))
        self.past_shape = self.depthwise.past_shape

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, C, T] -> the same, next past."""
        y, past = self.depthwise(x, past)
        mixed = self.down(F.gelu(self.up(self.norm(y.transpose(1, 2)))))  # [B, T, C]
        return x + (self.scale * mixed).transpose(1, 2), past


class ClipConv(nn.Module):
    """A causal convolution with a stride, over a whole clip: ceil(T / stride) outputs.

    The clip's two ends are padded here, layer by layer: with zeros, or with copies of the end values.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        dilation: int = 1,
        bias: bool = True,
        repeat_ends: bool = False,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride, dilation=dilation, bias=bias)
        self.stride = stride
        self.front = (kernel - 1) * dilation + 1 - stride
        self.padding = "replicate" if repeat_ends else "constant"

    def forward(self, x: Tensor) -> Tensor:
        """x [B, inputs, T] -> [B, outputs, ceil(T / stride)]."""
        length = x.shape[-1]
        after = math.ceil(length / self.stride) * self.stride - length
        return self.conv(F.pad(x, (self.front, after), self.padding))
