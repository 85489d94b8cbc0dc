"""What a released model needs on this CPU and how fast it will be, told before anything is downloaded.

A frame reads the matrices of the language side from memory and calculates the codec's products. So its time follows
from the sizes of the model, from how fast this machine reads, and from how fast it multiplies. Both are measured here,
in less than a second.
"""

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod

import numpy as np

from omnitts_cli.families.known import made_up
from omnitts_cli.kernels.ops import EIGHT, EightBits
from omnitts_cli.models.shapes import DecoderShape
from omnitts_cli.speech.memory import Needs
from omnitts_cli.weights import eight as eight_bits

READING, MULTIPLYING = 0.75, 1.1
"""Shares of the measured speeds that a frame reaches: with random weights of 0.6B, on two cores with AVX2; the codec's
with AVX-512, above 1 because convolutions in quads need fewer products than are counted.
"""
STREAM_BYTES, MOST_BYTES = 128 << 20, 1 << 30  # read by each thread, and by all: more than caches hold
SIZE = 512  # of the matrices that are multiplied


@dataclass(frozen=True)
class Speeds:
    """Of so many threads together."""

    threads: int
    gb_per_s: float  # read
    gmac_per_s: float  # products, each added to a sum


def is_busy(threads: int) -> bool:
    """Whether other programs use so much of the processor that these speeds are too low."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > threads / 2


@dataclass(frozen=True)
class Outlook:
    """Of one model in 8 bits."""

    model: str
    memory_bytes: int
    rtf: float


def best_of(run: Callable[[], object], times: int) -> float:
    """Seconds."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found)


def gigabytes_per_s(eight: EightBits, threads: int, size_bytes: int) -> float:
    """What so many threads read from memory together, `size_bytes` each, a multiple of 64."""
    data = [np.ones(size_bytes, np.uint8) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        return threads * size_bytes / best_of(lambda: list(pool.map(eight.sum_of, data)), 3) / 1e9


def speeds(eight: EightBits) -> Speeds:
    """Of this machine, with as many threads as torch uses."""
    import torch

    threads = torch.get_num_threads()
    one, other, out = torch.ones(SIZE, SIZE), torch.ones(SIZE, SIZE), torch.empty(SIZE, SIZE)
    products = SIZE**3 / best_of(lambda: torch.mm(one, other, out=out), 8) / 1e9
    return Speeds(
        threads, gigabytes_per_s(eight, threads, min(STREAM_BYTES, MOST_BYTES // threads // 64 * 64)), products
    )


def frame_bytes(language: Mapping[str, tuple[int, ...]], groups: int, bits: EightBits) -> int:
    """The bytes of matrices in 8 bits that a frame reads. `language`: the shapes of the language side, by name."""
    sizes = {
        called: prod(eight_bits.size_of(bits, called, shape))
        for called, shape in language.items()
        if eight_bits.is_matrix(called)
    }
    again = groups - 2  # the predictor's layers are read once for each group but the first
    return sum(size * (1 + again * called.startswith("predictor.stack.")) for called, size in sizes.items())


def outlook(name: str, bits: EightBits, speed: Speeds) -> Outlook:
    """Of a released model, such as "0.6b-customvoice"."""
    family, config = made_up(name, None)
    assert family.stored is not None
    stored = family.stored(config)
    read = frame_bytes(stored.language[1], config.decoder.groups, bits)
    frame_s = read / 1e9 / (READING * speed.gb_per_s)
    frame_s += products_of(config.decoder) / 1e9 / (MULTIPLYING * speed.gmac_per_s)
    needs = Needs(stored.language[1], sum(map(prod, stored.decoder[1].values())), lambda: bits, lean=True)
    return Outlook(name, needs.size_bytes(EIGHT), frame_s * 12.5)


def products_of(shape: DecoderShape) -> int:
    """Products of a number and a weight that the codec calculates for a frame."""
    at, latent = shape.transformer, shape.latent
    wide = at.heads * at.head_dim
    total = at.layers * at.hidden * (4 * wide + 3 * at.inner)
    columns = 1
    for rate in shape.stretches:
        columns *= rate
        total += columns * latent * latent * (1 + 2 * shape.expansion)
    total += columns * latent * shape.kernel * shape.width
    for step, rate in enumerate(shape.rises):
        columns, outputs = columns * rate, shape.width >> (step + 1)
        units = len(shape.dilations) * (shape.kernel + 1) * outputs * outputs
        total += columns * (4 * outputs * outputs + units)
    return total
