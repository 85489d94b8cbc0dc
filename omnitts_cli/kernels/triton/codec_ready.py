"""Launches the codec's kernels, or only compiles them, several at a time.

The codec needs some eighty kernels; one after the other they would take a minute on a machine that has
not compiled them before.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import triton

_dry: ContextVar[bool] = ContextVar("dry", default=False)


def only_compiling() -> bool:
    """Whether kernels are compiled without being run."""
    return _dry.get()


def run(kernel: Any, grid: tuple[int, ...], *given: object, **options: int) -> None:
    if _dry.get():
        kernel.warmup(*given, grid=grid, **options)
    else:
        kernel[grid](*given, **options)


def warm_up(step: Callable[[], None]) -> None:
    """Compile every kernel that `step` would launch, and wait until all are compiled. Nothing is run."""
    if triton.knobs.runtime.interpret:
        return
    before = _dry.set(True)
    try:
        with ThreadPoolExecutor() as pool, triton.AsyncCompileMode(pool):
            step()
    finally:
        _dry.reset(before)
