"""KVCache: keys and values of every slot, in one tensor each; layout, write and view are private here."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KVCache:
    """Slot-contiguous keys and values. A slot's positions 0..n-1 are valid once written; nobody clears them."""

    keys: Tensor  # [layers, slots, capacity, kv_heads, head_dim]
    values: Tensor  # the same

    @staticmethod
    def empty(
        layers: int, slots: int, capacity: int, kv_heads: int, head_dim: int, device: torch.device | str, dtype: torch.dtype
    ) -> KVCache:
        shape = (layers, slots, capacity, kv_heads, head_dim)
        # zeros, not empty: a masked NaN would still poison the product of weights and values
        return KVCache(torch.zeros(shape, device=device, dtype=dtype), torch.zeros(shape, device=device, dtype=dtype))

    @property
    def capacity(self) -> int:
        return self.keys.shape[2]

    def write(self, layer: int, slots: Tensor, positions: Tensor, keys: Tensor, values: Tensor) -> None:
        """slots [B], positions [B, P], keys and values [B, P, kv_heads, head_dim]."""
        rows = slots[:, None].expand_as(positions)
        self.keys[layer].index_put_((rows, positions), keys)
        self.values[layer].index_put_((rows, positions), values)

    def view(self, layer: int, slots: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first `width` positions: [B, width, kv_heads, head_dim] each."""
        return self.keys[layer, :, :width].index_select(0, slots), self.values[layer, :, :width].index_select(0, slots)

    def copy_prefix(self, source: KVCache, rows: int, slot: int) -> None:
        """Copy the first `rows` positions of `source` (one slot) into `slot`."""
        self.keys[:, slot, :rows].copy_(source.keys[:, 0, :rows], non_blocking=True)
        self.values[:, slot, :rows].copy_(source.values[:, 0, :rows], non_blocking=True)
