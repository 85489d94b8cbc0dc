"""A small decoder stack for few rows on a CPU, as one operation.

For one row and a few hundred channels, calling thirty operations takes longer than computing them. So the weights are
rearranged once, with the weights of the norms multiplied in. Steps over a few hundred numbers use NumPy, which has less
call overhead; products and attention use torch, on the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels.ops import LayerWeights

FEW = 5
"""From this many rows on, one norm for all rows is faster than one for each."""

NEAR = 128
"""Slots whose positions differ by this or more do not share an attention call: reading masked keys would take longer
than a second call."""

SIGNS = np.array([[-1], [1]], np.float32)


class FusedStack:
    """The blocks and the final norm."""

    variant = "stack.py"
    most_rows = 16
    numbers = None

    def __init__(self, blocks: Sequence[LayerWeights], norm: Tensor, kv_heads: int, eps: float) -> None:
        self._layers = [_Layer.of(block, kv_heads) for block in blocks]
        self._weight, self._kv_heads, self._eps = norm, kv_heads, eps

    def __call__(
        self, rows: Tensor, positions: Tensor, slots: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        """As `FusedStack` in kernels/ops.py."""
        places = _Places.of(positions, slots, cos, sin)
        x = rows.flatten(0, 1).clone()
        normed, first = torch.empty_like(x), self._layers[0]
        norm = self._norm(x.numpy(), normed.numpy())
        qkv, thought = (x.new_empty(len(x), weight.shape[1]) for weight in (first.qkv, first.gate_up))
        gate, up = thought.chunk(2, 1)
        for layer, own_keys, own_values in zip(self._layers, keys.numpy(), values.numpy(), strict=True):
            norm()
            torch.mm(normed, layer.qkv, out=qkv)
            x.addmm_(self._attend(layer, qkv.numpy(), places, own_keys, own_values), layer.out)
            norm()
            torch.mm(normed, layer.gate_up, out=thought)
            x.addmm_(F.silu(gate, inplace=True).mul_(up), layer.down)
        norm()
        return normed.mul_(self._weight).view(rows.shape)

    def _norm(self, rows: np.ndarray, out: np.ndarray) -> Callable[[], None]:
        """What puts each row over its root mean square into its place in `out`."""
        count, pairs = rows.shape[1], list(zip(rows, out, strict=True))

        def one_by_one() -> None:
            for row, place in pairs:
                np.multiply(row, (float(row.dot(row)) / count + self._eps) ** -0.5, out=place)

        def together() -> None:
            size = np.einsum("ij,ij->i", rows, rows)[:, None]
            size /= count
            size += self._eps
            np.divide(rows, np.sqrt(size, out=size), out=out)

        return one_by_one if len(pairs) < FEW else together

    def _attend(self, layer: _Layer, qkv: np.ndarray, places: _Places, keys: np.ndarray, values: np.ndarray) -> Tensor:
        """qkv [N, (heads + 2 kv) D], keys and values [slots, kv, capacity, D] -> [N, heads * D]."""
        kv_heads, (turned, depth) = self._kv_heads, layer.qk_norm.shape
        heads = turned - kv_heads
        parts = qkv.reshape(len(qkv), -1, depth)
        qk, v = parts[:, :turned], parts[:, turned:]
        size = np.add.reduce(qk * qk, -1, keepdims=True)
        size += depth * self._eps
        qk = qk / np.sqrt(size, out=size)
        qk *= layer.qk_norm
        halves = qk.reshape(len(qk), turned, 2, -1)
        made = halves * places.cos
        made += halves[:, :, ::-1] * places.sin
        made = made.reshape(len(qk), turned, depth)
        queries = made[:, :heads].reshape(len(qk), kv_heads, -1, depth)
        mixed = np.empty_like(queries)
        for side in places.sides:
            own_keys, own_values = keys[side.slots], values[side.slots]
            own_keys[side.at], own_values[side.at] = made[side.rows, heads:], v[side.rows]
            said = F.scaled_dot_product_attention(
                torch.from_numpy(queries[side.rows]),
                torch.from_numpy(own_keys[:, :, : side.width]),
                torch.from_numpy(own_values[:, :, : side.width]),
                side.mask,
            )
            if len(said) == len(qk):
                return said.view(len(qk), -1)
            mixed[side.rows] = said.numpy()
        return torch.from_numpy(mixed.reshape(len(qk), -1))


@dataclass(frozen=True)
class _Side:
    """One row for each of several consecutive slots, for one attention call."""

    rows: slice
    slots: slice
    at: tuple[Any, ...]  # index of their keys and values within these slots
    width: int
    mask: Tensor | None  # [slots, 1, 1, width] float32; None if all positions are equal

    @staticmethod
    def of(rows: slice, slots: slice, places: list[int]) -> _Side:
        last, everyone = max(places), slice(None)
        if min(places) == last:
            return _Side(rows, slots, (everyone, everyone, last), last + 1, None)
        where = np.array(places)
        beyond = np.arange(last + 1) > where[:, None, None, None]
        mask = torch.from_numpy(np.where(beyond, np.float32(-np.inf), np.float32(0)))
        return _Side(rows, slots, (np.arange(len(places)), everyone, where), last + 1, mask)


@dataclass(frozen=True)
class _Places:
    """The positions of the N rows, grouped for attention, and their rotation."""

    sides: list[_Side]  # those of one slot in the order of its rows
    cos: np.ndarray  # [N, 1, 1, D / 2]
    sin: np.ndarray  # [N, 1, 2, D / 2], negative for the first half

    @staticmethod
    def of(positions: Tensor, slots: Tensor, cos: Tensor, sin: Tensor) -> _Places:
        places, who, count = positions.T.tolist(), slots.tolist(), positions.shape[1]
        starts, sides = places[0], []
        first = 0
        for last in range(1, len(who) + 1):
            beside = last < len(who) and who[last] == who[last - 1] + 1
            if beside and abs(starts[last] - starts[first]) < NEAR:
                continue
            mine = slice(who[first], who[last - 1] + 1)
            for row, column in enumerate(places):
                sides.append(_Side.of(slice(first * count + row, last * count, count), mine, column[first:last]))
            first = last
        where = positions.flatten().tolist()
        turns = cos.numpy()[where], sin.numpy()[where]
        return _Places(sides, turns[0][:, None, None], turns[1][:, None, None] * SIGNS)


@dataclass(frozen=True)
class _Layer:
    """Weights [inputs, outputs], the fastest layout for products of one row."""

    qkv: Tensor
    qk_norm: np.ndarray  # [heads + kv, D], times sqrt(D), because heads are divided by their norm, not by their rms
    out: Tensor
    gate_up: Tensor
    down: Tensor

    @staticmethod
    def of(block: LayerWeights, kv_heads: int) -> _Layer:
        depth = block.q_norm.shape[0]
        norms = [block.q_norm.expand(block.out.shape[1] // depth, -1), block.k_norm.expand(kv_heads, -1)]
        return _Layer(
            qkv=(block.qkv * block.input_norm).t().contiguous(),
            qk_norm=torch.cat(norms).mul_(depth**0.5).numpy(),
            out=block.out.t().contiguous(),
            gate_up=(block.gate_up * block.mlp_norm).t().contiguous(),
            down=block.down.t().contiguous(),
        )
