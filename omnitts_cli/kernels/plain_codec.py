"""Plain PyTorch version of every operation of the streaming codec: the truth for faster twins.

Time is the middle axis: x [B, columns, channels]. Products hear operands (the format of their weights) and
sum in float32; `wide` results are float32, `heard` results are operands for the next product. Results are
written where the caller says. A value that an operand cannot hold becomes the largest that it can.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels.ops import CodecOps, Product
from omnitts_cli.kernels.tracks import Tracks


def operand(x: Tensor, kind: torch.dtype) -> Tensor:
    most = torch.finfo(kind).max
    return x.clamp(-most, most).to(kind)


def snake(x: Tensor, scale: Tensor, inverse: Tensor) -> Tensor:
    return x + (x * scale).sin().square() * inverse


def entries(codes: Tensor, books: Tensor, heard: Tensor) -> None:
    """codes [B, T, G], books [G, V, W] float32 -> heard [B, T, 2 W]: group 0's entry, the sum of the others'."""
    chosen = books[torch.arange(books.shape[0], device=codes.device), codes]  # [B, T, G, W]
    heard.copy_(operand(torch.cat([chosen[..., 0, :], chosen[..., 1:, :].sum(2)], -1), heard.dtype))


def product(
    x: Tensor,  # [B, columns + (taps - 1) * dilation, inputs]
    layer: Product,
    residual: Tensor | None = None,  # [B, columns, outputs] float32
    wide: Tensor | None = None,  # the same, written; may be `residual` itself
    heard: Tensor | None = None,  # [B, columns, outputs], or half as many for a gate; written
) -> None:
    """y = weight x + bias + residual: `wide` gets y, `heard` gets y bent."""
    columns = x.shape[1] - (layer.taps - 1) * layer.dilation
    spread = [x[:, tap * layer.dilation : tap * layer.dilation + columns] for tap in range(layer.taps)]
    x = torch.cat(spread, -1)
    y = F.linear(operand(x, layer.weight.dtype).float(), layer.weight.float())
    if layer.eps is not None:
        y = y * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + layer.eps)
    if layer.bias is not None:
        y = y + layer.bias
    if residual is not None:
        y = y + residual
    if wide is not None:
        wide.copy_(y)
    if heard is None:
        return
    if layer.bend == "snake":
        assert layer.scale is not None and layer.inverse is not None
        y = snake(y, layer.scale, layer.inverse)
    elif layer.bend == "gelu":
        y = F.gelu(y)
    elif layer.bend == "gate":
        gate, up = y.chunk(2, -1)
        y = F.silu(gate) * up
    heard.copy_(operand(y, heard.dtype))


def unit(x: Tensor, wide: Product, point: Product, residual: Tensor, keep: bool, heard: Tensor) -> None:
    """A residual unit: y = residual + point(wide(x)). `heard` gets y bent; `residual` becomes y if `keep`."""
    between = torch.empty(residual.shape, dtype=wide.weight.dtype, device=x.device)
    product(x, wide, heard=between)
    product(between, point, residual=residual, wide=residual if keep else None, heard=heard)


def attend(
    qkv: Tensor,  # [B, T, 3 * heads * D] float32
    pace: Tensor,  # [D / 2] float32: radians a frame
    frames: Tensor,  # [slots] how many came before
    slots: Tensor,  # [B]
    keys: Tensor,  # [slots, heads, ring, D] operands; frame f lies at f % ring; written
    values: Tensor,
    window: int,  # frames heard, the own one included; ring >= window - 1 + T
    heard: Tensor,  # [B, T, heads * D]; written
) -> None:
    """Rotate, attend to the last `window` frames, write the new keys and values."""
    _, heads, ring, depth = keys.shape
    length = qkv.shape[1]
    q, k, v = qkv.unflatten(-1, (3, heads, depth)).unbind(2)  # [B, T, heads, D]
    fresh = torch.arange(length, device=qkv.device)
    place = frames[slots][:, None] + fresh  # [B, T]
    turned = place[..., None].float() * pace
    cos, sin = turned.cos()[:, :, None], turned.sin()[:, :, None]

    def rotate(x: Tensor) -> Tensor:
        low, high = x.chunk(2, -1)
        return operand(torch.cat([low * cos - high * sin, high * cos + low * sin], -1), keys.dtype)

    q, k, v = rotate(q), rotate(k), operand(v, keys.dtype)
    # the frames before, oldest first; those before a young stream's first are nobody's and may be anything
    past = frames[slots][:, None] + torch.arange(1 - window, 0, device=qkv.device)  # [B, window - 1]
    where = (slots[:, None], past % ring)
    age = torch.cat([past, place], 1)  # [B, keys]
    real = (age >= 0)[:, None, :, None]
    k_all = torch.cat([keys.transpose(1, 2)[where], k], 1).transpose(1, 2).where(real, 0.0)
    v_all = torch.cat([values.transpose(1, 2)[where], v], 1).transpose(1, 2).where(real, 0.0)
    distance = place[:, :, None] - age[:, None]  # [B, T, keys]
    seen = (distance >= 0) & (distance < window) & (age >= 0)[:, None]
    out = F.scaled_dot_product_attention(q.transpose(1, 2).float(), k_all.float(), v_all.float(), seen[:, None])
    heard.copy_(operand(out.transpose(1, 2).flatten(2), heard.dtype))
    where = (slots[:, None], place % ring)
    keys.transpose(1, 2).index_put_(where, k)
    values.transpose(1, 2).index_put_(where, v)


def mix(x: Tensor, weight: Tensor, bias: Tensor, eps: float, heard: Tensor) -> None:
    """A convolution of each channel by itself, weight [taps, C], then layer norm without weights."""
    columns = x.shape[1] - weight.shape[0] + 1
    y = bias + sum(x[:, tap : tap + columns].float() * weight[tap] for tap in range(weight.shape[0]))
    heard.copy_(operand(F.layer_norm(y, y.shape[-1:], eps=eps), heard.dtype))


def close(x: Tensor, weight: Tensor, bias: Tensor, sound: Tensor) -> None:
    """A convolution to one channel, weight [taps, C] float32 -> sound [B, columns] float32 in -1..1."""
    columns = x.shape[1] - weight.shape[0] + 1
    y = sum((x[:, tap : tap + columns].float() * weight[tap]).sum(-1) for tap in range(weight.shape[0]))
    sound.copy_((y + bias).clamp(-1.0, 1.0))


def hush(frames: Tensor, slots: Tensor, cut: int, heard: Tensor, wide: Tensor | None = None) -> None:
    """The first `cut` columns of streams that begin with this call become silent, in place."""
    begins = (frames.index_select(0, slots) == 0)[:, None, None]
    for made in (heard, wide):
        if made is not None:
            made[:, :cut].masked_fill_(begins, 0.0)


def recall(buffer: Tensor, tracks: Tracks, past: Tensor, slots: Tensor, length: int) -> None:
    """Fill the front of every track of `buffer` from past [slots, kept]; `length` is in frames."""
    remembered = past.index_select(0, slots).split([part.past * part.channels for part in tracks.parts], 1)
    views = tracks.views(buffer, slots.shape[0], length)
    for part, view, one in zip(tracks.parts, views, remembered, strict=True):
        view[:, : part.past] = one.unflatten(1, (part.past, part.channels))


def keep(buffer: Tensor, tracks: Tracks, past: Tensor, slots: Tensor, frames: Tensor, length: int) -> None:
    """The other way round, from the back of every track; frames [slots] grow by `length`."""
    views = tracks.views(buffer, slots.shape[0], length)
    tails = [view[:, view.shape[1] - part.past :].flatten(1) for part, view in zip(tracks.parts, views, strict=True)]
    past.index_copy_(0, slots, torch.cat(tails, 1))
    frames.index_copy_(0, slots, frames.index_select(0, slots) + length)


def ready(step: Callable[[], None]) -> None:
    """Make what `step` will call ready; a call may be slow the first time otherwise."""


OPS = CodecOps(
    operand=torch.float32,
    entries=entries,
    product=product,
    unit=unit,
    attend=attend,
    mix=mix,
    close=close,
    hush=hush,
    recall=recall,
    keep=keep,
    ready=ready,
)
