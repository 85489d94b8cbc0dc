"""The codec's operations between products: embedding of codes, attention, depthwise convolution, the last convolution,
silence at the start of a stream, and copying histories between slots and tracks.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from omnitts_cli.kernels import plain_codec
from omnitts_cli.kernels.tracks import BLOCK, Tracks
from omnitts_cli.kernels.triton.codec_math import operand
from omnitts_cli.kernels.triton.codec_products import precision
from omnitts_cli.kernels.triton.codec_ready import run


@triton.jit(do_not_specialize=["columns"])
def _entries(codes, books, out, columns, stride, groups: tl.constexpr, size: tl.constexpr, width: tl.constexpr,
             block: tl.constexpr):  # fmt: skip
    row = tl.program_id(0)
    lane = tl.arange(0, block)
    inside = lane < width
    codes += row * groups
    lead = tl.load(books + tl.load(codes) * width + lane, inside, 0.0)
    rest = tl.zeros((block,), tl.float32)
    for group in tl.static_range(1, groups):
        rest += tl.load(books + (group * size + tl.load(codes + group)) * width + lane, inside, 0.0)
    out += (row // columns) * stride + (row % columns) * 2 * width
    kind = out.dtype.element_ty
    tl.store(out + lane, operand(lead, kind), inside)
    tl.store(out + width + lane, operand(rest, kind), inside)


def embed_codes(codes: Tensor, books: Tensor, out: Tensor) -> None:
    rows, columns, groups = codes.shape
    _, size, width = books.shape
    run(
        _entries, (rows * columns,),
        codes.contiguous(), books, out, columns, out.stride(0), groups, size, width,
        triton.next_power_of_2(width), num_warps=4,
    )  # fmt: skip


@triton.jit
def _rotated(at, fresh, cos, sin, depth: tl.constexpr, stride, t, kind: tl.constexpr):
    """Both halves of one head of every new frame, [T, D / 2] each."""
    half: tl.constexpr = depth // 2
    where = at + t[:, None] * stride + tl.arange(0, half)[None, :]
    low = tl.load(where, fresh[:, None], 0.0)
    high = tl.load(where + half, fresh[:, None], 0.0)
    return operand(low * cos - high * sin, kind), operand(high * cos + low * sin, kind)


TILE = tl.constexpr(16)
"""Frames of a stream in one tile. Tiles begin at multiples of this, wherever a chunk begins."""


@triton.jit(do_not_specialize=["columns"])
def _attend(  # noqa: PLR0915
    qkv, pace, frames, slots, keys, values, out, columns, out_stride,
    heads: tl.constexpr, ring: tl.constexpr, depth: tl.constexpr, window: tl.constexpr, precision: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """Each program owns a head of a stream, so no other program accesses its part of the ring. A frame and its keys
    always have the same places in their tiles, so its sums have one order in chunks of any size.
    """
    batch, head = tl.program_id(0), tl.program_id(1)
    kind = keys.dtype.element_ty
    half: tl.constexpr = depth // 2
    slot = tl.load(slots + batch)
    before = tl.load(frames + slot).to(tl.int32)
    end = before + columns
    begin = before - before % TILE
    lane = tl.arange(0, half)
    whole = tl.arange(0, depth)
    stride = 3 * heads * depth
    qkv += (batch * columns * 3 * heads + head) * depth
    store = (slot * heads + head) * ring * depth
    keys += store
    values += store
    speed = tl.load(pace + lane)[None, :]
    for start in tl.range(begin, end, TILE):  # write the new keys and values
        t = start + tl.arange(0, TILE)
        fresh = (t >= before) & (t < end)
        turned = t.to(tl.float32)[:, None] * speed
        low, high = _rotated(
            qkv + heads * depth, fresh, tl.cos(turned), tl.sin(turned), depth, stride, t - before, kind
        )
        v = tl.load(qkv + 2 * heads * depth + (t - before)[:, None] * stride + whole[None, :], fresh[:, None], 0.0)
        place = (t % ring)[:, None] * depth
        tl.store(keys + place + lane[None, :], low, fresh[:, None])
        tl.store(keys + place + half + lane[None, :], high, fresh[:, None])
        tl.store(values + place + whole[None, :], operand(v, kind), fresh[:, None])
    tl.debug_barrier()
    root = 1.0 / tl.sqrt(tl.full((), depth, tl.float32))
    out += batch * out_stride + head * depth
    for start in tl.range(begin, end, TILE):
        t = start + tl.arange(0, TILE)
        fresh = (t >= before) & (t < end)
        key = start + TILE - block + tl.arange(0, block)
        held = (key >= 0) & (key > before - window) & (key < end)
        place = ((key + ring) % ring)[:, None] * depth
        k_low = tl.load(keys + place + lane[None, :], held[:, None], 0.0)
        k_high = tl.load(keys + place + half + lane[None, :], held[:, None], 0.0)
        v = tl.load(values + place + whole[None, :], held[:, None], 0.0)
        turned = t.to(tl.float32)[:, None] * speed
        q_low, q_high = _rotated(qkv, fresh, tl.cos(turned), tl.sin(turned), depth, stride, t - before, kind)
        score = tl.dot(q_low, tl.trans(k_low), input_precision=precision)
        score = tl.dot(q_high, tl.trans(k_high), score, input_precision=precision) * root
        distance = t[:, None] - key[None, :]
        seen = held[None, :] & (distance >= 0) & (distance < window)
        score = tl.where(seen, score, -1e30)  # finite, because rows that are not new frames may see no key at all
        score = tl.exp(score - tl.max(score, 1)[:, None])
        mixed = tl.dot(score.to(kind), v, input_precision=precision) / tl.sum(score, 1)[:, None]
        place = (t - before)[:, None] * (heads * depth) + whole[None, :]
        tl.store(out + place, operand(mixed, kind), fresh[:, None])


def attend(
    qkv: Tensor, pace: Tensor, frames: Tensor, slots: Tensor, keys: Tensor, values: Tensor, window: int, out: Tensor
) -> None:
    _, heads, ring, depth = keys.shape
    if depth & (depth - 1) or depth < 32:
        return plain_codec.attend(qkv, pace, frames, slots, keys, values, window, out)
    rows, columns, _ = qkv.shape
    run(
        _attend, (rows, heads),
        qkv, pace, frames, slots, keys, values, out, columns, out.stride(0), heads, ring, depth, window,
        precision(keys.dtype), triton.next_power_of_2(window - 1 + TILE.value), num_warps=4, num_stages=1,
    )  # fmt: skip


@triton.jit(do_not_specialize=["columns"])
def _mix(x, weight, bias, out, columns, x_stride, out_stride, eps: tl.constexpr, taps: tl.constexpr,
         channels: tl.constexpr, block: tl.constexpr):  # fmt: skip
    row = tl.program_id(0)
    batch, column = row // columns, row % columns
    c = tl.arange(0, block)
    inside = c < channels
    x += batch * x_stride + column * channels
    y = tl.load(bias + c, inside, 0.0)
    for tap in tl.static_range(taps):
        part = tl.load(x + tap * channels + c, inside, 0.0).to(tl.float32)
        y += part * tl.load(weight + tap * channels + c, inside, 0.0)
    y -= tl.sum(y) / channels
    y = tl.where(inside, y, 0.0)
    y *= tl.rsqrt(tl.sum(y * y) / channels + eps)
    tl.store(out + batch * out_stride + column * channels + c, operand(y, out.dtype.element_ty), inside)


def depthwise_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float, out: Tensor) -> None:
    rows, columns, channels = out.shape
    run(
        _mix, (rows * columns,),
        x, weight, bias, out, columns, x.stride(0), out.stride(0), eps, weight.shape[0], channels,
        triton.next_power_of_2(channels), num_warps=4,
    )  # fmt: skip


@triton.jit(do_not_specialize=["count", "columns"])
def _close(x, weight, bias, sound, count, columns, x_stride, taps: tl.constexpr, channels: tl.constexpr,
           block_m: tl.constexpr, block: tl.constexpr):  # fmt: skip
    m = tl.program_id(0) * block_m + tl.arange(0, block_m)
    there = m < count
    c = tl.arange(0, block)
    inside = c < channels
    rows = x + ((m // columns) * x_stride + (m % columns) * channels)[:, None] + c[None, :]
    total = tl.zeros((block_m, block), tl.float32)
    for tap in tl.static_range(taps):
        part = tl.load(rows + tap * channels, there[:, None] & inside[None, :], 0.0).to(tl.float32)
        total += part * tl.load(weight + tap * channels + c, inside, 0.0)[None, :]
    y = tl.sum(total, 1) + tl.load(bias)
    tl.store(sound + m, tl.minimum(tl.maximum(y, -1.0), 1.0), there)


def output_conv(x: Tensor, weight: Tensor, bias: Tensor, sound: Tensor) -> None:
    rows, columns = sound.shape
    taps, channels = weight.shape
    run(
        _close, (triton.cdiv(rows * columns, 32),),
        x, weight, bias, sound, rows * columns, columns, x.stride(0), taps, channels, 32,
        triton.next_power_of_2(channels), num_warps=4,
    )  # fmt: skip


@triton.jit(do_not_specialize=["count"])
def _zero_start(out, before, frames, slots, count, out_stride, before_stride, keeps: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0)
    if tl.load(frames + tl.load(slots + row)) == 0:
        j = tl.program_id(1) * block + tl.arange(0, block)
        silence = tl.zeros((block,), tl.float32)
        tl.store(out + row * out_stride + j, silence.to(out.dtype.element_ty), j < count)
        if keeps:
            tl.store(before + row * before_stride + j, silence.to(before.dtype.element_ty), j < count)


def zero_start(frames: Tensor, slots: Tensor, cut: int, made: Tensor, made_before: Tensor | None) -> None:
    rows, count = made.shape[0], cut * made.shape[2]
    run(
        _zero_start, (rows, triton.cdiv(count, BLOCK)),
        made, made_before, frames, slots, count, made.stride(0), 0 if made_before is None else made_before.stride(0),
        made_before is not None, BLOCK, num_warps=4,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows", "length"])
def _carry(
    buffer, past, table, slots, frames, kept, rows, length, back: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    line, row = tl.program_id(0), tl.program_id(1)
    table += line * 5
    before_past, before_rate = tl.load(table), tl.load(table + 1)
    own_past, own_rate, first = tl.load(table + 2), tl.load(table + 3), tl.load(table + 4)
    slot = tl.load(slots + row)
    j = first + tl.arange(0, block)
    inside = j < own_past
    there = buffer + rows * (before_past + length * before_rate) + row * (own_past + length * own_rate) + j
    here = past + slot * kept + before_past + j
    if back:
        tl.store(here, tl.load(there + length * own_rate, inside), inside)
        if line == 0:
            tl.store(frames + slot, tl.load(frames + slot) + length)
    else:
        tl.store(there, tl.load(here, inside), inside)


def load_history(buffer: Tensor, tracks: Tracks, history: Tensor, slots: Tensor, length: int) -> None:
    rows = slots.shape[0]
    assert tracks.table is not None
    run(
        _carry, (tracks.table.shape[0], rows),
        buffer, history, tracks.table, slots, None, history.shape[1], rows, length, False, BLOCK, num_warps=4,
    )  # fmt: skip


def store_history(buffer: Tensor, tracks: Tracks, history: Tensor, slots: Tensor, frames: Tensor, length: int) -> None:
    rows = slots.shape[0]
    assert tracks.table is not None
    run(
        _carry, (tracks.table.shape[0], rows),
        buffer, history, tracks.table, slots, frames, history.shape[1], rows, length, True, BLOCK, num_warps=4,
    )  # fmt: skip
