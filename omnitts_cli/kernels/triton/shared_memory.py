"""The shared memory of the card, and the depth of load pipelines that fit in it. Tiles were chosen on a card with 227
KiB per program. With less, the same tiles are loaded fewer iterations ahead.
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
    """The number of pipeline stages that fit, at most `most`."""
    return max(1, min(most, (shared_bytes() - SPARE) // tile_bytes))
