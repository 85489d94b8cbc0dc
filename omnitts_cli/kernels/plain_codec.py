"""Plain PyTorch version of every operation of the streaming codec: the reference for faster versions.

Time is the middle axis: x [B, columns, channels]. Products take operands (the format of their weights) and sum in
float32; `out` results, after the activation, are operands for the next product, `before` results are float32 or
operands. Results are written into tensors of the caller. A value outside an operand's range is clamped to it.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels.ops import CodecOps, Product
from omnitts_cli.kernels.plain_experts import swiglu
from omnitts_cli.kernels.tracks import Tracks


def operand(x: Tensor, kind: torch.dtype) -> Tensor:
    """x in the number format `kind`, clamped to its range."""
    most = torch.finfo(kind).max
    return x.clamp(-most, most).to(kind)


def snake(x: Tensor, scale: Tensor, inverse: Tensor) -> Tensor:
    """x + sin^2(scale * x) * inverse."""
    return x + (x * scale).sin().square() * inverse


def embed_codes(codes: Tensor, books: Tensor, out: Tensor) -> None:
    """codes [B, T, G], books [G, V, W] float32 -> out [B, T, 2 W]: group 0's entry, then the sum of the others'."""
    chosen = books[torch.arange(books.shape[0], device=codes.device), codes]  # [B, T, G, W]
    out.copy_(operand(torch.cat([chosen[..., 0, :], chosen[..., 1:, :].sum(2)], -1), out.dtype))


def product(
    x: Tensor,  # [B, columns + (taps - 1) * dilation, inputs]
    layer: Product,
    residual: Tensor | None = None,  # [B, columns, outputs] float32 or operands
    before: Tensor | None = None,  # the same, written; may be `residual` itself
    out: Tensor | None = None,  # [B, columns, outputs], or half as many for a gate; written
) -> None:
    """`before` gets y = weight x + bias + residual, `out` gets activation(y)."""
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
    if before is not None:
        before.copy_(operand(y, before.dtype))
    if out is None:
        return
    if layer.activation == "snake":
        assert layer.scale is not None and layer.inverse is not None
        y = snake(y, layer.scale, layer.inverse)
    elif layer.activation == "gelu":
        y = F.gelu(y)
    elif layer.activation == "swiglu":
        y = swiglu(y)
    out.copy_(operand(y, out.dtype))


def residual_unit(x: Tensor, conv: Product, point: Product, residual: Tensor, keep: bool, out: Tensor) -> None:
    """y = residual + point(conv(x)). `out` gets the activation of y; `residual` becomes y if `keep`."""
    between = torch.empty(residual.shape, dtype=conv.weight.dtype, device=x.device)
    product(x, conv, out=between)
    product(between, point, residual=residual, before=residual if keep else None, out=out)


def attend(
    qkv: Tensor,  # [B, T, 3 * heads * D] float32
    rates: Tensor,  # [D / 2] float32: radians a frame
    frames: Tensor,  # [slots] int64: how many came before
    slots: Tensor,  # [B] int64
    keys: Tensor,  # [slots, heads, ring, D] operands; frame f lies at f % ring; written
    values: Tensor,
    window: int,  # frames each frame attends to, itself included; ring >= window - 1 + T
    out: Tensor,  # [B, T, heads * D]; written
) -> None:
    """Rotate, attend to the last `window` frames, write the new keys and values."""
    _, heads, ring, depth = keys.shape
    length = qkv.shape[1]
    q, k, v = qkv.unflatten(-1, (3, heads, depth)).unbind(2)  # [B, T, heads, D]
    fresh = torch.arange(length, device=qkv.device)
    place = frames[slots][:, None] + fresh  # [B, T]
    turned = place[..., None].float() * rates
    cos, sin = turned.cos()[:, :, None], turned.sin()[:, :, None]

    def rotate(x: Tensor) -> Tensor:
        low, high = x.chunk(2, -1)
        return operand(torch.cat([low * cos - high * sin, high * cos + low * sin], -1), keys.dtype)

    q, k, v = rotate(q), rotate(k), operand(v, keys.dtype)
    # earlier frames, oldest first; ring entries before the stream's first frame are uninitialised
    past = frames[slots][:, None] + torch.arange(1 - window, 0, device=qkv.device)  # [B, window - 1]
    where = (slots[:, None], past % ring)
    age = torch.cat([past, place], 1)  # [B, keys]
    real = (age >= 0)[:, None, :, None]
    k_all = torch.cat([keys.transpose(1, 2)[where], k], 1).transpose(1, 2).where(real, 0.0)
    v_all = torch.cat([values.transpose(1, 2)[where], v], 1).transpose(1, 2).where(real, 0.0)
    distance = place[:, :, None] - age[:, None]  # [B, T, keys]
    seen = (distance >= 0) & (distance < window) & (age >= 0)[:, None]
    attended = F.scaled_dot_product_attention(q.transpose(1, 2).float(), k_all.float(), v_all.float(), seen[:, None])
    out.copy_(operand(attended.transpose(1, 2).flatten(2), out.dtype))
    where = (slots[:, None], place % ring)
    keys.transpose(1, 2).index_put_(where, k)
    values.transpose(1, 2).index_put_(where, v)


def depthwise_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float, out: Tensor) -> None:
    """A convolution of each channel by itself, weight [taps, C], then layer norm without weights."""
    columns = x.shape[1] - weight.shape[0] + 1
    y = bias + sum(x[:, tap : tap + columns].float() * weight[tap] for tap in range(weight.shape[0]))
    out.copy_(operand(F.layer_norm(y, y.shape[-1:], eps=eps), out.dtype))


def output_conv(x: Tensor, weight: Tensor, bias: Tensor, sound: Tensor) -> None:
    """A convolution to one channel, weight [taps, C] float32 -> sound [B, columns] float32 in -1..1."""
    columns = x.shape[1] - weight.shape[0] + 1
    y = sum((x[:, tap : tap + columns].float() * weight[tap]).sum(-1) for tap in range(weight.shape[0]))
    sound.copy_((y + bias).clamp(-1.0, 1.0))


def zero_start(frames: Tensor, slots: Tensor, cut: int, made: Tensor, made_before: Tensor | None) -> None:
    """Zero the first `cut` columns of streams that begin with this call, in place."""
    begins = (frames.index_select(0, slots) == 0)[:, None, None]
    for one in (made, made_before):
        if one is not None:
            one[:, :cut].masked_fill_(begins, 0.0)


def load_history(buffer: Tensor, tracks: Tracks, history: Tensor, slots: Tensor, length: int) -> None:
    """Fill the front of every track of `buffer` from history [slots, kept]; `length`: frames of this call."""
    kept = history.index_select(0, slots).split([part.past * part.channels for part in tracks.parts], 1)
    views = tracks.views(buffer, slots.shape[0], length)
    for part, view, one in zip(tracks.parts, views, kept, strict=True):
        view[:, : part.past] = one.unflatten(1, (part.past, part.channels))


def store_history(buffer: Tensor, tracks: Tracks, history: Tensor, slots: Tensor, frames: Tensor, length: int) -> None:
    """The reverse: save the back of every track; frames [slots] advance by `length`."""
    views = tracks.views(buffer, slots.shape[0], length)
    tails = [view[:, view.shape[1] - part.past :].flatten(1) for part, view in zip(tracks.parts, views, strict=True)]
    history.index_copy_(0, slots, torch.cat(tails, 1))
    frames.index_copy_(0, slots, frames.index_select(0, slots) + length)


def warm_up(step: Callable[[], None]) -> None:
    """Compile what `step` calls; nothing to do here."""


OPS = CodecOps(
    operand=torch.float32,
    embed_codes=embed_codes,
    product=product,
    residual_unit=residual_unit,
    attend=attend,
    depthwise_norm=depthwise_norm,
    output_conv=output_conv,
    zero_start=zero_start,
    load_history=load_history,
    store_history=store_history,
    warm_up=warm_up,
)
