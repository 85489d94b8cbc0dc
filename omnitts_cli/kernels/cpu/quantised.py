"""Weights in 8 bits: matrices made and read by native/quantised.c, and the stacks, products and frames that use them.

A matrix is a uint8 tensor that begins with its shape. It stands in the place of a float tensor in a module; operations
recognise it by its type.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from omnitts_cli.kernels.cpu import library
from omnitts_cli.kernels.cpu.networks import (
    CompiledFrame,
    QuantisedLayer,
    Stack,
    address,
    cache_of,
    check,
    head_norms,
    run,
    single,
    threads,
)
from omnitts_cli.kernels.ops import EightBits, FrameParts, LayerWeights

HEADER, BLOCK, GROUP = 64, 64, 32  # bytes; outputs of a block; inputs of a group
GROUP_BYTES = BLOCK * (2 + GROUP)
BYTES, HALF = np.uint8, np.float16
TOGETHER = {"avx512vnni": (4, 8), "avxvnni": (4, 8), "dotprod": (4, 8), "avx2": (2, 4)}
"""By instruction set, how many requests share a pass over the weights: while someone listens, as many as take at most
about twice as long as one; for a file, up to where more of them no longer take less time each. LOG.md has the times."""
REFUSED = {2: "holds NaN or infinity", 3: "holds numbers that do not fit 8 bits and a scale in float16"}


def size_bytes(outputs: int, inputs: int, paired: bool = False) -> int:
    """Of a matrix. The halves of a paired one are filled up to whole blocks separately."""
    blocks = 2 * -(-(outputs // 2) // BLOCK) if paired else -(-outputs // BLOCK)
    return HEADER + blocks * -(-inputs // GROUP) * GROUP_BYTES


def make(native: library.QuantisedLibrary, weight: Any, out: Any, paired: bool = False) -> None:
    """weight [outputs, inputs] -> its bytes, or a ValueError. `paired`: blocks of its halves in turn (gate and up)."""
    weight, out = single(weight), np.asarray(out)
    assert out.size == size_bytes(weight.shape[0], weight.shape[1], paired), "a matrix of another size"
    status = native.make(address(weight), *weight.shape, paired, address(out, BYTES), threads())
    if status:
        raise ValueError(REFUSED[status])


def shape(matrix: Any) -> tuple[int, int]:
    """(outputs, inputs)"""
    outputs, inputs = np.asarray(matrix)[:16].view(np.int64).tolist()
    return outputs, inputs


class QuantisedStack:
    """A stack of layers; the same call as `stack.FusedStack`, with keys and values in float16."""

    variant = "quantised.c"
    most_rows = sys.maxsize
    numbers = "float16"

    def __init__(
        self,
        native: library.QuantisedLibrary,
        blocks: Sequence[LayerWeights],
        norm: Any,
        kv_heads: int,
        eps: float,
    ) -> None:
        self._native, self._threads = native, threads()
        depth, inner = blocks[0].q_norm.shape[0], shape(blocks[0].down)[1]
        heads = shape(blocks[0].out)[1] // depth
        self._kept = [_layer(block, heads, kv_heads) for block in blocks]
        matrices = [(block.qkv, block.out, block.gate_up, block.down) for block in blocks]
        layers = (QuantisedLayer * len(blocks))(
            *(
                QuantisedLayer(*map(address, norms), *(address(one, BYTES) for one in four))
                for norms, four in zip(self._kept, matrices, strict=True)
            )
        )
        norm = single(norm)
        self._others = norm, layers, matrices
        self.struct = Stack(
            norm.shape[0], inner, heads, kv_heads, depth, len(blocks), eps, address(norm), ctypes.addressof(layers)
        )

    def __call__(self, rows: Any, positions: Any, slots: Any, cos: Any, sin: Any, keys: Any, values: Any) -> Any:
        cache = cache_of(cos, sin, keys, values, HALF)
        return run(self._native.stack, self.struct, rows, positions, slots, cache, self._threads)


def _layer(block: LayerWeights, heads: int, kv_heads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return single(block.input_norm), head_norms(block, heads, kv_heads), single(block.mlp_norm)


def fuse_frame(native: library.QuantisedLibrary, parts: FrameParts) -> Callable[[Any], None]:
    """A frame of slots [B] as one call."""
    cache = cache_of(parts.cache.cos, parts.cache.sin, parts.cache.keys, parts.cache.values, HALF)
    project = None if parts.project is None else parts.project[0]
    heads = [address(head, BYTES) for head in parts.heads]
    matrices = address(parts.head, BYTES), heads, project if project is None else address(project, BYTES)
    return CompiledFrame(native.frame, parts, cache, matrices, (), threads())


def multiply(native: library.QuantisedLibrary, x: Any, matrix: Any) -> Any:
    """x [..., inputs] and a matrix in 8 bits -> [..., outputs]."""
    rows, (outputs, inputs) = single(x), shape(matrix)
    assert rows.shape[-1] == inputs, "a matrix for rows of another width"
    y = np.empty((*rows.shape[:-1], outputs), np.float32)
    check(native.multiply(address(matrix, BYTES), address(rows), rows.size // inputs, address(y), threads()))
    return y


def sum_of(native: library.QuantisedLibrary, data: Any) -> str:
    """A sum over bytes, whose number is a multiple of 64; as hexadecimal digits."""
    data = np.asarray(data)
    return f"{native.sum(address(data, BYTES), data.size):016x}"


def table(native: library.QuantisedLibrary) -> EightBits:
    together = TOGETHER.get(native.variant, (1, 4))
    return EightBits(size_bytes, partial(make, native), partial(sum_of, native), together)
