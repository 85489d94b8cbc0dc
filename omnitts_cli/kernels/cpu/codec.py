"""The streaming codec on a CPU: few passes over the sound, each with the library that is fastest at it.

Convolutions of few columns are one matrix product, because a library's convolution first rearranges the weights; longer
ones are torch's, in channels-last layout. NumPy's sine takes 0.4 of the time of torch's.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels import plain_codec
from omnitts_cli.kernels.ops import Product
from omnitts_cli.kernels.tracks import Tracks

FEW = 4
"""Up to this many columns per output of a layer, the matrix product is faster."""


def snake(x: Tensor, scale: Tensor, inverse: Tensor, out: Tensor) -> None:
    wave = x * scale
    np.sin(wave.numpy(), out=wave.numpy())
    torch.addcmul(x, wave.square_(), inverse, out=out)


def windows(x: Tensor, taps: int, dilation: int = 1) -> Tensor:
    """x [B, length, C] -> [B, columns, taps, C], the inputs of each column; no copy."""
    row, step, channel = x.stride()
    columns = x.shape[1] - (taps - 1) * dilation
    return x.as_strided((x.shape[0], columns, taps, x.shape[2]), (row, step, dilation * step, channel))


def multiply(x: Tensor, layer: Product) -> Tensor:
    """weight [x(t), x(t + dilation), ...] + bias: [B, columns, outputs]."""
    if layer.taps == 1:
        return F.linear(x, layer.weight, layer.bias)
    outputs, inputs = layer.weight.shape[0], x.shape[2]
    unfolded = windows(x, layer.taps, layer.dilation)
    if unfolded.shape[0] * unfolded.shape[1] <= FEW * outputs:
        return F.linear(unfolded.flatten(2), layer.weight, layer.bias)
    # [B, inputs, 1, length] and [outputs, inputs, 1, taps], both with channels last in memory
    image = x.transpose(1, 2)[:, :, None]
    kernel = layer.weight.view(outputs, layer.taps, inputs).transpose(1, 2)[:, :, None]
    return F.conv2d(image, kernel, layer.bias, dilation=(1, layer.dilation))[:, :, 0].transpose(1, 2)


def product(
    x: Tensor, layer: Product, residual: Tensor | None = None, before: Tensor | None = None, out: Tensor | None = None
) -> None:
    if layer.eps is not None:
        x = x * torch.rsqrt(torch.linalg.vector_norm(x, 2, -1, True).square_().div_(x.shape[-1]).add_(layer.eps))
    y = multiply(x, layer)
    if residual is not None:
        y = torch.add(y, residual, out=y if before is None else before)
    elif before is not None:
        y = before.copy_(y)
    if out is not None:
        activate(y, layer, out)


def activate(y: Tensor, layer: Product, out: Tensor) -> None:
    if layer.activation == "snake":
        assert layer.scale is not None and layer.inverse is not None
        snake(y, layer.scale, layer.inverse, out)
    elif layer.activation == "gelu":
        out.copy_(F.gelu(y))
    elif layer.activation == "swiglu":
        gate, up = y.chunk(2, -1)
        torch.mul(F.silu(gate), up, out=out)
    else:
        out.copy_(y)


def residual_unit(x: Tensor, conv: Product, point: Product, residual: Tensor, keep: bool, out: Tensor) -> None:
    between = multiply(x, conv)
    activate(between, conv, between)
    product(between, point, residual=residual, before=residual if keep else None, out=out)


def attend(
    qkv: Tensor, rates: Tensor, frames: Tensor, slots: Tensor, keys: Tensor, values: Tensor, window: int, out: Tensor
) -> None:
    (_, heads, ring, depth), (rows, length, _) = keys.shape, qkv.shape
    who, before = slots.numpy()[:, None], frames.numpy()[slots.numpy()][:, None]  # [B, 1]
    ages = before + np.arange(1 - window, length)  # [B, window - 1 + T], of all frames that are attended to
    fresh = ages[:, -length:]
    angle = (fresh[..., None].astype(np.float32) * rates.numpy())[:, :, None, None]  # [B, T, 1, 1, D / 2]
    cos, sin = np.cos(angle), np.sin(angle)
    parts = qkv.numpy().reshape(rows, length, 3, heads, 2, depth // 2)
    low, high = parts[:, :, :2, :, 0], parts[:, :, :2, :, 1]  # of queries and keys: [B, T, 2, heads, D / 2]
    turned = np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)
    queries = torch.from_numpy(turned[:, :, 0].swapaxes(1, 2))
    all_keys, all_values = keys.numpy(), values.numpy()  # [slots, heads, ring, D]
    all_keys[who, :, fresh % ring] = turned[:, :, 1]
    all_values[who, :, fresh % ring] = parts[:, :, 2].reshape(rows, length, heads, depth)
    # skip ring entries before the stream's first frame: they are uninitialised
    real = np.where(ages < 0, before, ages) % ring
    held_keys, held_values = (torch.from_numpy(one[who, :, real].swapaxes(1, 2)) for one in (all_keys, all_values))
    distance = fresh[:, :, None] - ages[:, None]  # [B, T, window - 1 + T]
    seen = torch.from_numpy((distance >= 0) & (distance < window) & (ages >= 0)[:, None])
    made = F.scaled_dot_product_attention(queries, held_keys, held_values, seen[:, None])
    out.copy_(made.transpose(1, 2).flatten(2))


def depthwise_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float, out: Tensor) -> None:
    y = (windows(x, weight.shape[0]) * weight).sum(2).add_(bias)
    out.copy_(F.layer_norm(y, y.shape[-1:], eps=eps))


def output_conv(x: Tensor, weight: Tensor, bias: Tensor, sound: Tensor) -> None:
    rows, columns = sound.shape
    taps = weight.shape[0]
    shares = x @ weight.t()  # [B, length, taps]: what each column adds to its `taps` samples
    slanted = shares.as_strided((rows, columns, taps), (shares.stride(0), taps, taps + 1))
    torch.sum(slanted, -1, out=sound)
    sound.add_(bias).clamp_(-1.0, 1.0)


def load_history(buffer: Tensor, tracks: Tracks, history: Tensor, slots: Tensor, length: int) -> None:
    held, whole = history.numpy(), buffer.numpy()
    for row, slot in enumerate(slots.tolist()):
        for first, last, front, _ in places(tracks, slots.shape[0], row, length):
            whole[front : front + last - first] = held[slot, first:last]


def store_history(buffer: Tensor, tracks: Tracks, history: Tensor, slots: Tensor, frames: Tensor, length: int) -> None:
    held, whole = history.numpy(), buffer.numpy()
    for row, slot in enumerate(slots.tolist()):
        for first, last, _, back in places(tracks, slots.shape[0], row, length):
            held[slot, first:last] = whole[back - (last - first) : back]
        frames[slot] += length


def places(tracks: Tracks, rows: int, row: int, length: int) -> Iterator[tuple[int, int, int, int]]:
    """For each track: its begin and end in a stream's state, and the begin and end of `row` in the buffer."""
    first = before = 0
    for part in tracks.parts:
        last, size = first + part.past * part.channels, (part.past + part.rate * length) * part.channels
        yield first, last, before + row * size, before + (row + 1) * size
        first, before = last, before + rows * size


OPS = replace(
    plain_codec.OPS,
    product=product,
    residual_unit=residual_unit,
    attend=attend,
    depthwise_norm=depthwise_norm,
    output_conv=output_conv,
    load_history=load_history,
    store_history=store_history,
)
