"""CodecEncoder: sound -> codes. For cloning and training only.

Encode one clip at a time: each convolution pads the end of the clip itself, so a clip padded with silence to the length
of another has different values in its last frame.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.models.codec_layers import Attention, SplitQuantiser
from omnitts_cli.models.layers import angles
from omnitts_cli.models.shapes import EncoderShape, TransformerShape


class ClipConv(nn.Module):
    """A causal convolution with a stride, over a whole clip: ceil(T / stride) outputs.

    Both ends of the clip are padded in this layer: with zeros, or with copies of the end values.
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


class ClipLayer(nn.Module):
    """Layer norms with biases and a plain MLP; attention over everything before."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.hidden, eps=shape.eps)
        self.attention = Attention(shape)
        self.attention_scale = nn.Parameter(torch.full((shape.hidden,), shape.scale))
        self.mlp_norm = nn.LayerNorm(shape.hidden, eps=shape.eps)
        self.up = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, shape.hidden, bias=False)
        self.mlp_scale = nn.Parameter(torch.full((shape.hidden,), shape.scale))

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        """x [B, T, hidden] -> the same; `turn`: cosine and sine of the positions."""
        q, k, v = self.attention.project(self.attention_norm(x), turn)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_scale * self.attention.gather(attended)
        return x + self.mlp_scale * self.down(F.gelu(self.up(self.mlp_norm(x))))


class ClipTransformer(nn.Module):
    """[B, T, hidden] -> the same; causal over the whole clip, no window, no norm at the end."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.shape = shape
        self.layers = nn.ModuleList(ClipLayer(shape) for _ in range(shape.layers))

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, hidden] -> the same."""
        positions = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
        turn = angles(positions, self.shape.head_dim, self.shape.rope_theta)
        for layer in self.layers:
            x = layer(x, turn)
        return x


class EncoderUnit(nn.Module):
    """x + pointwise(elu(dilated(elu(x)))), narrower inside."""

    def __init__(self, shape: EncoderShape, channels: int, dilation: int) -> None:
        super().__init__()
        inner = channels // shape.squeeze
        self.wide = ClipConv(channels, inner, shape.unit_kernel, dilation=dilation)
        self.point = ClipConv(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, T] -> the same."""
        return x + self.point(F.elu(self.wide(F.elu(x))))


class Fall(nn.Module):
    """Residual units, then `rate` times fewer samples at twice the width."""

    def __init__(self, shape: EncoderShape, channels: int, rate: int) -> None:
        super().__init__()
        self.units = nn.ModuleList(EncoderUnit(shape, channels, d) for d in shape.dilations)
        self.fall = ClipConv(channels, 2 * channels, 2 * rate, rate)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, T] -> [B, 2 C, ceil(T / rate)]."""
        for unit in self.units:
            x = unit(x)
        return self.fall(F.elu(x))


class CodecEncoder(nn.Module):
    """sound [B, n] -> codes [B, ceil(n / samples_per_frame), G]."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.shape = shape
        hidden = shape.transformer.hidden
        widths = [shape.filters << step for step in range(len(shape.falls) + 1)]
        self.opening = ClipConv(1, shape.filters, shape.kernel)
        self.falls = nn.ModuleList(Fall(shape, w, r) for w, r in zip(widths, shape.falls, strict=False))
        self.closing = ClipConv(widths[-1], hidden, shape.closing_kernel)
        self.transformer = ClipTransformer(shape.transformer)
        self.last_fall = ClipConv(hidden, hidden, 2 * shape.last_fall, shape.last_fall, bias=False, repeat_ends=True)
        self.quantiser = SplitQuantiser(shape.groups, shape.codes, shape.book_width, hidden)

    def forward(self, sound: Tensor) -> Tensor:
        """sound [B, n] -> codes [B, T, G]."""
        return self.quantiser.encode(self.latent(sound))

    def latent(self, sound: Tensor) -> Tensor:
        """sound [B, n] -> latents [B, T, hidden], before quantisation."""
        x = self.opening(sound[:, None])  # [B, filters, n]
        for fall in self.falls:
            x = fall(x)
        x = self.closing(F.elu(x)).transpose(1, 2)  # [B, T * last_fall, hidden]
        return self.last_fall(self.transformer(x).transpose(1, 2)).transpose(1, 2)
