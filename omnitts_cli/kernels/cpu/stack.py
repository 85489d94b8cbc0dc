"""A small decoder stack for few rows on a CPU, as one operation.

One row goes through a layer of a few hundred channels in less time than it takes to ask for thirty operations.
So the weights are laid out once, with the norms' weights multiplied into them. Steps over a few hundred numbers
are NumPy's, which begins sooner; products and attention are torch's, into memory that both see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels.ops import Block

SMALL = 64 << 20
"""Bytes of a stack above which products take all the time, and a second copy of the weights too much memory."""

SIGNS = np.array([[-1], [1]], np.float32)


def walk(blocks: Sequence[Block], norm: Tensor, kv_heads: int, eps: float) -> Walk | None:
    """The stack as one operation; None where layer by layer is as good."""
    weights = [weight for block in blocks for weight in vars(block).values()]
    small = sum(weight.nbytes for weight in weights) <= SMALL
    return Walk(blocks, norm, kv_heads, eps) if small and norm.dtype == torch.float32 else None


class Walk:
    """The blocks, and the norm behind them."""

    def __init__(self, blocks: Sequence[Block], norm: Tensor, kv_heads: int, eps: float) -> None:
        self._layers = [_Layer.of(block, kv_heads) for block in blocks]
        self._weight, self._kv_heads, self._eps = norm, kv_heads, eps

    def __call__(
        self,
        rows: Tensor,  # [B, P, H]
        positions: Tensor,  # [B, P]
        slots: Tensor,  # [B]
        cos: Tensor,  # [capacity, D / 2]
        sin: Tensor,
        keys: Tensor,  # [layers, slots, kv, capacity, D], written
        values: Tensor,
    ) -> Tensor:
        places = _Places.of(positions, slots, cos, sin)
        x = rows.flatten(0, 1).clone()
        normed, first = torch.empty_like(x), self._layers[0]
        pairs = list(zip(x.numpy(), normed.numpy(), strict=True))
        qkv, thought = (x.new_empty(len(x), weight.shape[1]) for weight in (first.qkv, first.gate_up))
        gate, up = thought.chunk(2, 1)
        for layer, own_keys, own_values in zip(self._layers, keys.numpy(), values.numpy(), strict=True):
            self._norm(pairs)
            torch.mm(normed, layer.qkv, out=qkv)
            x.addmm_(self._attend(layer, qkv.numpy(), places, own_keys, own_values), layer.out)
            self._norm(pairs)
            torch.mm(normed, layer.gate_up, out=thought)
            x.addmm_(F.silu(gate, inplace=True).mul_(up), layer.down)
        self._norm(pairs)
        return normed.mul_(self._weight).view(rows.shape)

    def _norm(self, pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Each row over its root mean square, into its place."""
        for row, out in pairs:
            np.multiply(row, (float(row.dot(row)) / row.size + self._eps) ** -0.5, out=out)

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
        for row, (slot, place) in enumerate(places.where):
            keys[slot, :, place] = made[row, heads:]
            values[slot, :, place] = v[row]
        queries = made[:, :heads].reshape(len(qk), 1, kv_heads, -1, depth)
        heard = [
            F.scaled_dot_product_attention(
                torch.from_numpy(query),
                torch.from_numpy(keys[slot : slot + 1, :, : place + 1]),
                torch.from_numpy(values[slot : slot + 1, :, : place + 1]),
            )
            for query, (slot, place) in zip(queries, places.where, strict=True)
        ]
        return (torch.cat(heard) if len(heard) > 1 else heard[0]).view(len(qk), -1)


@dataclass(frozen=True)
class _Places:
    """Where the N rows stand, and their rotation."""

    where: list[tuple[int, int]]  # slot, position
    cos: np.ndarray  # [N, 1, 1, D / 2]
    sin: np.ndarray  # [N, 1, 2, D / 2], negative for the first half

    @staticmethod
    def of(positions: Tensor, slots: Tensor, cos: Tensor, sin: Tensor) -> _Places:
        at = positions.flatten().tolist()
        whose = [slot for slot in slots.tolist() for _ in range(positions.shape[1])]
        turns = cos.numpy()[at], sin.numpy()[at]
        return _Places(list(zip(whose, at, strict=True)), turns[0][:, None, None], turns[1][:, None, None] * SIGNS)


@dataclass(frozen=True)
class _Layer:
    """Weights [inputs, outputs], as a product of one row reads them fastest."""

    qkv: Tensor
    qk_norm: np.ndarray  # [heads + kv, D], times the root of D: heads are divided by their norm, not by its mean
    out: Tensor
    gate_up: Tensor
    down: Tensor

    @staticmethod
    def of(block: Block, kv_heads: int) -> _Layer:
        depth = block.q_norm.shape[0]
        norms = [block.q_norm.expand(block.out.shape[1] // depth, -1), block.k_norm.expand(kv_heads, -1)]
        return _Layer(
            qkv=(block.qkv * block.input_norm).t().contiguous(),
            qk_norm=torch.cat(norms).mul_(depth**0.5).numpy(),
            out=block.out.t().contiguous(),
            gate_up=(block.gate_up * block.mlp_norm).t().contiguous(),
            down=block.down.t().contiguous(),
        )
