"""The codec's two transformers: the decoder's, which streams with a window, and the encoder's, over a whole clip.

Layout: x [B, T, width]; keys and values [B, heads, T, D].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.kernels import plain
from omnitts_cli.models.layers import angles


@dataclass(frozen=True)
class TransformerShape:
    """Sizes of either transformer. `inner` is the width inside the MLP."""

    hidden: int
    inner: int
    layers: int
    heads: int
    head_dim: int
    eps: float = 1e-5
    rope_theta: float = 10_000.0
    scale: float = 0.01  # of what each branch adds, in a new network


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
