"""KVCache: keys and values of every slot, in one tensor each; layout, write and view are private here."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KVCache:
    """Slot-contiguous keys and values, each head's positions side by side.

    A slot's positions 0..n-1 are valid once written; nobody clears them, because attention reads a
    position only after the request that owns the slot has written it.
    """

    keys: Tensor  # [layers, slots, kv_heads, capacity, head_dim]
    values: Tensor  # the same

    @staticmethod
    def empty(
        layers: int,
        slots: int,
        capacity: int,
        kv_heads: int,
        head_dim: int,
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> KVCache:
        shape = (layers, slots, kv_heads, capacity, head_dim)
        # zeros, not empty: a masked NaN would still poison the product of weights and values
        return KVCache(torch.zeros(shape, device=device, dtype=dtype), torch.zeros(shape, device=device, dtype=dtype))

    @property
    def capacity(self) -> int:
        return self.keys.shape[3]

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """Keys and values of one layer: [slots, kv_heads, capacity, head_dim] each, no copy."""
        return self.keys[index], self.values[index]

    def copy_prefix(self, source: KVCache, rows: int, slot: int) -> None:
        """Copy the first `rows` positions of `source` (one slot) into `slot`."""
        self.keys[:, slot, :, :rows].copy_(source.keys[:, 0, :, :rows], non_blocking=True)
        self.values[:, slot, :, :rows].copy_(source.values[:, 0, :, :rows], non_blocking=True)

    def take_prefix(self, source: KVCache, rows: int, slot: int) -> None:
        """The other way round: keep the first `rows` positions of a slot of `source` in this cache of one slot."""
        self.keys[:, 0, :, :rows].copy_(source.keys[:, slot, :, :rows], non_blocking=True)
        self.values[:, 0, :, :rows].copy_(source.values[:, slot, :, :rows], non_blocking=True)

    def clear(self, slot: int) -> None:
        """Only needed when a slot's numbers are broken: a masked NaN still poisons sums."""
        self.keys[:, slot].zero_()
        self.values[:, slot].zero_()
