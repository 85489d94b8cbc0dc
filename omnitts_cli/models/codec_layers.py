"""Layers of the codec: causal convolutions, snake, the blocks made of them, the windowed transformer, the quantiser.

Time is the last axis: x [B, C, T]; in the transformer x is [B, T, width], keys and values [B, heads, T, D]. A layer
with a history takes the tail of its earlier input as `past` and returns (output, next past). A past of zeros is the
start of a stream, so a whole clip and a stream are the same call. The size of the tail is `past_shape`, (channels,
length).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.kernels import plain
from omnitts_cli.models.layers import angles
from omnitts_cli.models.parameters import random
from omnitts_cli.models.shapes import TransformerShape

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
    The kernel is a whole number of blocks of `rate` samples; each input adds to its own block and to the following
    ones.
    """
    (rate,), columns = conv.stride, x.shape[-1]
    if columns > FEW:
        return conv(x)[..., : columns * rate]
    made = x.transpose(1, 2).flatten(0, 1) @ conv.weight.flatten(1)  # [B * columns, outputs * kernel]
    blocks = made.view(-1, columns, conv.out_channels, conv.kernel_size[0] // rate, rate).unbind(3)
    total = blocks[0]
    for late in range(1, len(blocks)):
        total = total + F.pad(blocks[late][:, : columns - late], (0, 0, 0, 0, late, 0))  # [B, columns, outputs, rate]
    assert conv.bias is not None
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
    """A transposed convolution: each input makes `rate` samples and adds to those of the next inputs."""

    def __init__(self, inputs: int, outputs: int, blocks: int, rate: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, blocks * rate, rate)
        self.rate = rate
        self.past_shape = (inputs, blocks - 1)

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, inputs, T] -> [B, outputs, T * rate], next past."""
        whole = torch.cat([past, x], -1)
        # the first samples were already returned by the last call
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

    def train(self, mode: bool = True) -> "Snake":
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


class Attention(nn.Module):
    """Projections around attention, without norms of queries or keys."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        wide = shape.heads * shape.head_dim
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.hidden, 3 * wide, bias=False)
        self.out = nn.Linear(wide, shape.hidden, bias=False)

    def project(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, plain values: [B, heads, T, D] each."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)  # [B, T, heads, D] each
        return plain.rotate(q, *turn).transpose(1, 2), plain.rotate(k, *turn).transpose(1, 2), v.transpose(1, 2)

    def gather(self, attended: Tensor) -> Tensor:
        """[B, heads, T, D] -> [B, T, hidden]."""
        return self.out(attended.transpose(1, 2).flatten(2))


class WindowedLayer(nn.Module):
    """RMS norms and a gated MLP; attention over the last `window` frames."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.eps = shape.eps
        self.attention_norm = nn.Parameter(torch.ones(shape.hidden))
        self.attention = Attention(shape)
        self.attention_scale = nn.Parameter(torch.full((shape.hidden,), shape.scale))
        self.mlp_norm = nn.Parameter(torch.ones(shape.hidden))
        self.gate_up = nn.Linear(shape.hidden, 2 * shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, shape.hidden, bias=False)
        self.mlp_scale = nn.Parameter(torch.full((shape.hidden,), shape.scale))

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """keys and values [B, heads, window - 1, D] of earlier frames; returns x and those for the next call."""
        q, k, v = self.attention.project(plain.rms_norm(x, self.attention_norm, self.eps), turn)
        k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.attention_scale * self.attention.gather(attended)
        gate, up = self.gate_up(plain.rms_norm(x, self.mlp_norm, self.eps)).chunk(2, -1)
        mlp = self.down(F.silu(gate) * up)
        return x + self.mlp_scale * mlp, k[:, :, x.shape[1] :], v[:, :, x.shape[1] :]


class WindowedTransformer(nn.Module):
    """Width in, width out, `hidden` inside; each frame attends to itself and the window - 1 frames before it."""

    def __init__(self, shape: TransformerShape, width: int, window: int) -> None:
        super().__init__()
        self.shape, self.window = shape, window
        self.into = nn.Linear(width, shape.hidden)
        self.layers = nn.ModuleList(WindowedLayer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.hidden))
        self.out = nn.Linear(shape.hidden, width)

    @property
    def past_shape(self) -> tuple[int, int, int, int]:
        """Shape of the keys, or values, that one stream carries: layers, heads, frames, D."""
        return self.shape.layers, self.shape.heads, self.window - 1, self.shape.head_dim

    def forward(self, x: Tensor, frames: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, T, width] after `frames` [B] -> the same, next keys and values; keys and values [B, *past_shape]."""
        ahead = torch.arange(x.shape[1], device=x.device)
        turn = angles(frames[:, None] + ahead, self.shape.head_dim, self.shape.rope_theta)
        mask = self._mask(frames, ahead)
        x = self.into(x)
        next_keys, next_values = [], []
        for index, layer in enumerate(self.layers):
            x, k, v = layer(x, turn, mask, keys[:, index], values[:, index])
            next_keys.append(k)
            next_values.append(v)
        x = self.out(plain.rms_norm(x, self.norm, self.shape.eps))
        return x, torch.stack(next_keys, 1), torch.stack(next_values, 1)

    def _mask(self, frames: Tensor, ahead: Tensor) -> Tensor:
        """[B, 1, T, window - 1 + T]: true where a frame may look. Key j is frame j - (window - 1) of this call."""
        place = torch.arange(self.window - 1 + ahead.shape[0], device=frames.device) - (self.window - 1)
        seen = (place <= ahead[:, None]) & (place > ahead[:, None] - self.window)  # [T, keys]
        filled = place >= -frames[:, None]  # [B, keys]; a new stream has no frames that far back
        return (seen & filled[:, None])[:, None]


class Books(nn.Module):
    """Residual codebooks: each codes the remainder of the ones before it. The quantiser is always float32, because
    rounding could change the nearest entry, and the lookup is a thousandth of the work.
    """

    def __init__(self, books: int, codes: int, book_width: int, width: int) -> None:
        super().__init__()
        self.books = random(books, codes, book_width, std=1.0)
        self.into = nn.Linear(width, book_width, bias=False)
        self.out = nn.Linear(book_width, width, bias=False)

    def decode(self, codes: Tensor) -> Tensor:
        """codes [B, T, n] -> [B, T, width]."""
        count, size, book_width = self.books.shape
        # one gather from all books laid end to end, instead of one per book
        offsets = torch.arange(0, count * size, size, device=codes.device)
        entries = F.embedding(codes + offsets, self.books.view(count * size, book_width))  # [B, T, n, book width]
        return self.out(entries.sum(2))

    def encode(self, latent: Tensor) -> Tensor:
        """latent [B, T, width] -> codes [B, T, n], each the nearest by Euclidean distance."""
        rest = self.into(latent)
        codes = []
        for book in self.books:
            # one matrix per clip, so that the rounding of its distances does not depend on the others
            nearest = torch.cdist(rest, book.expand(rest.shape[0], -1, -1)).argmin(-1)  # [B, T]
            rest = rest - F.embedding(nearest, book)
            codes.append(nearest)
        return torch.stack(codes, -1)


class SplitQuantiser(nn.Module):
    """Group 0 has a codebook of its own; groups 1.. code the same latent, not the remainder of group 0."""

    def __init__(self, groups: int, codes: int, book_width: int, width: int) -> None:
        super().__init__()
        self.leading = Books(1, codes, book_width, width)
        self.residual = Books(groups - 1, codes, book_width, width)

    def decode(self, codes: Tensor) -> Tensor:
        """codes [B, T, G] -> the quantised latent [B, T, width], float32."""
        return self.leading.decode(codes[..., :1]) + self.residual.decode(codes[..., 1:])

    def encode(self, latent: Tensor) -> Tensor:
        """latent [B, T, width] -> codes [B, T, G]."""
        latent = latent.float()
        return torch.cat([self.leading.encode(latent), self.residual.encode(latent)], -1)
