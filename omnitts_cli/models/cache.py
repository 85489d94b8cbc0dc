"""KVCache: keys and values of all slots, in one tensor each."""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass

import torch
from torch import Tensor


def angles(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine of ordinary one-axis rotation: positions [...] -> two of [..., head_dim / 2] float32."""
    exponents = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32) / head_dim
    turned = positions[..., None].float() * theta**-exponents
    return turned.cos(), turned.sin()


def zeros(shape: tuple[int, ...], *, device: torch.device | str, dtype: torch.dtype) -> Tensor:
    """torch.zeros; on a CPU the system gives the memory when it is first written, so that unused slots take none."""
    size = 4 * math.prod(shape)
    if torch.device(device).type != "cpu" or dtype != torch.float32 or not size or not hasattr(mmap, "MAP_PRIVATE"):
        return torch.zeros(shape, device=device, dtype=dtype)
    try:
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # a forked process gets a copy of its own
    except OSError as error:
        raise MemoryError(f"not enough memory for {size} bytes of keys and values") from error
    return torch.frombuffer(memory, dtype=dtype).view(shape)


@dataclass(frozen=True)
class KVCache:
    """Keys and values, contiguous by slot and head, and the rotation of every position.

    Old positions need no clearing: attention reads a position only after the request that owns the slot has written it.
    """

    keys: Tensor  # [layers, slots, kv_heads, capacity, head_dim]
    values: Tensor  # the same
    cos: Tensor  # [capacity, head_dim / 2] float32
    sin: Tensor

    @staticmethod
    def empty(
        layers: int,
        slots: int,
        capacity: int,
        kv_heads: int,
        head_dim: int,
        rope_theta: float,
        device: torch.device | str,
        dtype: torch.dtype,
        turns: tuple[Tensor, Tensor] | None = None,
        cleared: bool = True,
    ) -> KVCache:
        """A cache. `turns`: cosine and sine of every position, if they have been computed already.

        Without `cleared` the memory is left as it is, for a caller whose `width` never covers an unwritten position.
        """
        # a masked NaN would still poison the product of weights and values
        make = zeros if cleared else torch.empty
        keys, values = make((2, layers, slots, kv_heads, capacity, head_dim), device=device, dtype=dtype)
        return KVCache(keys, values, *(turns or angles(torch.arange(capacity, device=device), head_dim, rope_theta)))

    @property
    def capacity(self) -> int:
        """Positions per slot."""
        return self.keys.shape[3]

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """Keys and values of one layer: [slots, kv_heads, capacity, head_dim] each, no copy."""
        return self.keys[index], self.values[index]

    def copy_prefix(self, source: KVCache, rows: int, slots: Tensor) -> None:
        """Copy the first `rows` positions of `source` (one slot) into each of `slots` [N]."""
        for mine, kept in ((self.keys, source.keys), (self.values, source.values)):
            mine[:, :, :, :rows].index_copy_(1, slots, kept[:, :, :, :rows].expand(-1, len(slots), -1, -1, -1))

    def take_prefix(self, source: KVCache, rows: int, slot: int) -> None:
        """The reverse: copy the first `rows` positions of a slot of `source` into this cache of one slot."""
        self.keys[:, 0, :, :rows].copy_(source.keys[:, slot, :, :rows], non_blocking=True)
        self.values[:, 0, :, :rows].copy_(source.values[:, slot, :, :rows], non_blocking=True)

    def clear(self, slot: int) -> None:
        """Zero a slot. Only needed after NaN: a masked NaN still spreads through sums."""
        self.keys[:, slot].zero_()
        self.values[:, slot].zero_()
