"""How much shared memory the card has, and how deep a pipeline of loads may be in it.

Tiles were measured on a card with 227 KiB a program. On one with less the same tiles are loaded fewer turns ahead.
"""

from __future__ import annotations

import functools

import triton

SPARE = 2048
"""Bytes that a kernel needs beside its tiles."""


@functools.cache
def shared_bytes() -> int:
    """Bytes that one program may use on the current card."""
    if triton.knobs.runtime.interpret:
        return 227 << 10
    driver = triton.runtime.driver.active
    return driver.utils.get_device_properties(driver.get_current_device())["max_shared_mem"]


def stages_in(tile_bytes: int, most: int) -> int:
    """How many tiles fit as pipeline stages, at most `most`."""
    return max(1, min(most, (shared_bytes() - SPARE) // tile_bytes))
