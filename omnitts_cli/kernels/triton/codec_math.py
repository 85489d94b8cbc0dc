"""Shared by the codec's products: the snake activation, rounding to operands, and loading a transposed tile of a
weight."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def operand(y, kind: tl.constexpr):
    """The nearest operand. float16 saturates at 65504."""
    if kind == tl.float16:
        y = tl.minimum(tl.maximum(y, -65504.0), 65504.0)
    return y.to(kind)


@triton.jit
def snake(y, scale, inverse):
    """y + sin^2(scale * y) * inverse. The square has period pi, so the angle is first reduced to around zero."""
    angle = y * scale
    turns = tl.floor(angle * 0.3183098861837907 + 0.5)
    angle = (angle - turns * 3.140625) - turns * 9.676535897932e-4  # pi in two parts, the first with few bits
    square = angle * angle
    sine = -2.5052108e-8
    sine = sine * square + 2.7557319e-6
    sine = sine * square - 1.9841270e-4
    sine = sine * square + 8.3333333e-3
    sine = sine * square - 0.16666667
    sine = (sine * square) * angle + angle
    return y + sine * sine * inverse


@triton.jit
def transposed(
    weight, first: tl.constexpr, count: tl.constexpr, inputs: tl.constexpr, start: tl.constexpr, read: tl.constexpr
):
    """`count` rows of a square weight from `first` on, `read` inputs from `start` on, transposed: [read, count]."""
    rows = first + tl.arange(0, count)
    return tl.trans(tl.load(weight + rows[:, None] * inputs + start + tl.arange(0, read)[None, :]))
