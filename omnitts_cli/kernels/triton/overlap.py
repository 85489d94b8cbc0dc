"""Programmatic dependent launch: a kernel starts before the previous one has ended (Hopper and later).

A kernel launched with `launch_pdl` may run up to its `wait` while the previous kernel finishes; before `wait` it may
read only constants such as weights. Every such kernel calls `wait`, so kernels stay in order.
"""

from __future__ import annotations

import functools

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

HOPPER = 90


@functools.cache
def overlaps() -> bool:
    """Whether kernels are launched this way on the current card."""
    if triton.knobs.runtime.interpret:
        return False
    arch = triton.runtime.driver.active.get_current_target().arch
    return isinstance(arch, int) and arch >= HOPPER


@triton.jit
def announce(early: tl.constexpr):
    """The next kernel may start once every program of this one has called this or ended."""
    if early:
        gdc_launch_dependents()


@triton.jit
def wait(early: tl.constexpr):
    """Wait until the previous kernel has ended and its results are visible."""
    if early:
        gdc_wait()


@triton.jit
def fetch_ahead(lines, width: tl.constexpr, count: tl.constexpr, pieces: tl.constexpr, early: tl.constexpr):
    """Prefetch the first `width` bytes of `count` lines into the L2 cache while the previous kernel finishes. The copy
    engine does this, without registers.
    """
    if early and pieces:
        piece: tl.constexpr = width // pieces
        at = lines.to(tl.int64)[:, None] + (tl.arange(0, pieces) * piece)[None, :]
        size = tl.full((count, pieces), piece, tl.int32)
        tl.inline_asm_elementwise(
            "cp.async.bulk.prefetch.L2.global [$1], $2; mov.u32 $0, 0;", "=r,l,r", [at, size],
            dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
