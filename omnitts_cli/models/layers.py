"""The decoder stack that talker and predictor share: norms, grouped attention, gated MLP or experts, rotation; and
KVCache, the keys and values of all slots.

State (keys and values) comes in as an argument; the modules hold weights and nothing else.
"""

import math
import mmap
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import FusedStack, LayerWeights, Normed, Ops
from omnitts_cli.models.experts import Experts
from omnitts_cli.models.parameters import random
from omnitts_cli.models.roles import KeyValues, Prefix
from omnitts_cli.models.shapes import StackShape, same_angles


def angles(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine of ordinary one-axis rotation: positions [...] -> two of [..., head_dim / 2] float32."""
    exponents = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32) / head_dim
    turned = positions[..., None].float() * theta**-exponents
    return turned.cos(), turned.sin()


def zeros(shape: tuple[int, ...], *, device: torch.device | str, dtype: torch.dtype) -> Tensor:
    """torch.zeros; on a CPU, memory is allocated at the first write, so that unused slots take none."""
    size, lazy = dtype.itemsize * math.prod(shape), dtype in (torch.float32, torch.float16)
    if torch.device(device).type != "cpu" or not lazy or not size or not hasattr(mmap, "MAP_PRIVATE"):
        return torch.zeros(shape, device=device, dtype=dtype)
    try:
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # a forked process gets a copy of its own
    except OSError as error:
        raise MemoryError(f"not enough memory for {size} bytes of keys and values") from error
    return torch.frombuffer(memory, dtype=dtype).view(shape)


@dataclass(frozen=True)
class KVCache(KeyValues):
    """In tensors."""

    keys: Tensor
    values: Tensor
    cos: Tensor
    sin: Tensor

    @staticmethod
    def empty(
        size: tuple[int, ...],
        turns: tuple[Tensor, Tensor],
        device: torch.device | str,
        dtype: torch.dtype,
        cleared: bool = True,
    ) -> "KVCache":
        """A cache of this size. `turns`: cosine and sine of every position.

        Without `cleared` the memory is left as it is, for a caller whose `width` never covers an unwritten position.
        """
        # a masked NaN would still spread in the product of weights and values
        make = zeros if cleared else torch.empty
        keys, values = make((2, *size), device=device, dtype=dtype)
        return KVCache(keys, values, *turns)

    @property
    def capacity(self) -> int:
        """As in KeyValues."""
        return self.keys.shape[3]

    def prefix(self, rows: int, slot: int) -> Prefix:
        """As in KeyValues."""
        first = (part[:, slot : slot + 1, :, :rows] for part in (self.keys, self.values))
        keys, values = (part.clone(memory_format=torch.contiguous_format) for part in first)
        return keys, values


@dataclass(frozen=True)
class Tap:
    """Where to copy the input of one layer, before its norm."""

    layer: int
    out: Tensor  # [B, P, H]


class Layer(nn.Module):
    """Weights of one pre-norm block. `Stack` runs the blocks, so that norms and adds can be fused with products."""

    def __init__(self, shape: StackShape) -> None:
        super().__init__()
        wide = shape.heads * shape.head_dim
        self.input_norm = nn.Parameter(torch.ones(shape.hidden))
        self.qkv = random(wide + 2 * shape.kv_heads * shape.head_dim, shape.hidden)
        self.q_norm = nn.Parameter(torch.ones(shape.head_dim))
        self.k_norm = nn.Parameter(torch.ones(shape.head_dim))
        self.out = random(shape.hidden, wide)
        self.mlp_norm = nn.Parameter(torch.ones(shape.hidden))
        self.experts = Experts(shape.hidden, shape.experts) if shape.experts else None
        if self.experts is None:
            self.gate_up = random(2 * shape.inner, shape.hidden)
            self.down = random(shape.hidden, shape.inner)


class Stack(nn.Module):
    """Decoder layers and the final norm: rows [B, P, H] -> hidden states [B, P, H]."""

    def __init__(self, shape: StackShape, ops: Ops = plain.OPS) -> None:
        super().__init__()
        self.shape, self.ops = shape, ops
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.hidden))
        self.fused: FusedStack | None = None
        self.recomputes = False
        """Whether `forward` keeps only each layer's input, from which the backward pass computes the rest again."""

    def fuse(self) -> None:
        """For inference, on devices that run a stack as one operation. Later changes of the weights are not seen."""
        if self.ops.fuse_stack is None or self.shape.experts is not None:
            return
        self.fused = self.ops.fuse_stack(self.blocks(), self.norm.detach(), self.shape.kv_heads, self.shape.eps)

    def blocks(self) -> list[LayerWeights]:
        """The weights of each layer."""
        names = [field.name for field in fields(LayerWeights)]
        return [LayerWeights(**{name: getattr(layer, name).detach() for name in names}) for layer in self.layers]

    def to_input_major(self, weight: nn.Parameter) -> None:
        """Store `weight` input-major, the layout that the fused CPU stack reads."""
        if self.fused is not None and weight.is_floating_point():
            weight.data = weight.data.mT.contiguous().mT

    def forward(self, rows: Tensor) -> Tensor:
        """The whole sequence at once, causal, without a cache, for training and evaluation: [B, P, H] -> [B, P, H].

        Padding on the right changes nothing to its left.
        """
        shape, positions = self.shape, torch.arange(rows.shape[1], device=rows.device)
        cos, sin = angles(positions, shape.head_dim, shape.rope_theta)

        def attend(index: int, qkv: Tensor) -> Tensor:
            layer = self.layers[index]
            return self.ops.learn.attend(qkv, layer.q_norm, layer.k_norm, shape.eps, cos, sin, shape.kv_heads)

        if not self.recomputes:
            return self.ops.norm(self._run(self.first_norm(rows), attend))

        def layer(index: int, rows: Tensor) -> Tensor:
            return self._layer(index, Normed(rows, self.layers[index].input_norm, self.shape.eps), attend).rows

        for index in range(len(self.layers)):
            rows = checkpoint(layer, index, rows, use_reentrant=False, preserve_rng_state=False)
        return self.ops.norm(Normed(rows, self.norm, self.shape.eps))

    def first_norm(self, rows: Tensor) -> Normed:
        """Rows [..., H] and the norm through which the first layer reads them."""
        return Normed(rows, self.layers[0].input_norm, self.shape.eps)

    def cached(
        self, rows: Tensor, positions: Tensor, slots: Tensor, cache: KVCache, width: int, tap: Tap | None = None
    ) -> Tensor:
        """Rows [B, P, H] at `positions` [B, P] of `slots` [B] -> hidden states; the cache is read and written."""
        made = self.unnormed(self.first_norm(rows), positions, slots, cache, width, tap)
        return self.ops.norm(made) if made.value is None else made.value

    def unnormed(
        self, rows: Normed, positions: Tensor, slots: Tensor, cache: KVCache, width: int, tap: Tap | None = None
    ) -> Normed:
        """As `cached`, but from rows with the first layer's norm, without the final norm."""
        if self.fused is not None and positions.shape[1] <= self.fused.most_rows:
            made = self.fused(rows.rows, positions, slots, cache.cos, cache.sin, cache.keys, cache.values)
            value = torch.as_tensor(made)  # the compiled library returns arrays of NumPy
            return Normed(value, self.norm, self.shape.eps, value)

        return self._run(rows, self.attention(positions, slots, cache, width), tap)

    def fill(self, rows: Tensor, positions: Tensor, slots: Tensor, cache: KVCache, width: int) -> None:
        """Writes the keys and values of rows [B, P, H]; skips the part of the last layer that only hidden states
        need."""
        if self.fused is not None and positions.shape[1] <= self.fused.most_rows:
            self.fused(rows, positions, slots, cache.cos, cache.sin, cache.keys, cache.values)
            return
        self._run(self.first_norm(rows), self.attention(positions, slots, cache, width), fills=True)

    def attention(
        self, positions: Tensor, slots: Tensor, cache: KVCache, width: int
    ) -> Callable[[int, Tensor], Tensor]:
        """What attends for a layer, from its index and its projection [B, P, ...]."""

        def attend(index: int, qkv: Tensor) -> Tensor:
            layer = self.layers[index]
            return self.ops.attend_cached(
                qkv,
                layer.q_norm,
                layer.k_norm,
                self.shape.eps,
                cache.cos,
                cache.sin,
                cache.keys[index],
                cache.values[index],
                slots,
                positions,
                width,
            )

        return attend

    def cache(
        self,
        slots: int,
        capacity: int,
        device: torch.device | str,
        dtype: torch.dtype,
        turns: tuple[Tensor, Tensor] | None = None,
        cleared: bool = True,
    ) -> KVCache:
        """An empty cache for this stack. `dtype`: of keys and values, unless the fused stack has its own."""
        at = self.shape
        if self.fused is not None and self.fused.numbers is not None:
            dtype = getattr(torch, self.fused.numbers)
        size = at.layers, slots, at.kv_heads, capacity, at.head_dim
        return KVCache.empty(size, turns or self.turns(capacity, device), device, dtype, cleared)

    def turns(self, capacity: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
        """Cosine and sine of every position. A stack with numbers of its own has weights in 8 bits, whose results are
        the same on every processor."""
        steady = self.fused is not None and self.fused.numbers is not None
        at = self.shape
        if steady:
            cos, sin = same_angles(np.arange(capacity), at.head_dim, at.rope_theta)
            return torch.from_numpy(cos), torch.from_numpy(sin)
        return angles(torch.arange(capacity, device=device), at.head_dim, at.rope_theta)

    def _run(
        self, x: Normed, attend: Callable[[int, Tensor], Tensor], tap: Tap | None = None, fills: bool = False
    ) -> Normed:
        """`attend` takes a layer's index and its projection, and returns the concatenated heads. With `fills`, only the
        cache is wanted, so it ends after the attention of the last layer.
        """
        last = len(self.layers) - 1
        for index in range(last + 1):
            if tap is not None and index == tap.layer:
                tap.out.copy_(x.rows)
            if fills and index == last:
                attend(index, self.ops.norm_linear(x, self.layers[index].qkv))
                break
            x = self._layer(index, x, attend)
        return x

    def _layer(self, index: int, x: Normed, attend: Callable[[int, Tensor], Tensor]) -> Normed:
        """One layer: its input -> its result, with the norm of what follows."""
        ops, eps, layer = self.ops, self.shape.eps, self.layers[index]
        norm = self.layers[index + 1].input_norm if index + 1 < len(self.layers) else self.norm
        attended = attend(index, ops.norm_linear(x, layer.qkv))
        x = ops.linear_add(attended, layer.out, x.rows, layer.mlp_norm, eps)
        if layer.experts is not None:
            return Normed(layer.experts(x.rows, layer.mlp_norm, eps, ops), norm, eps)
        return ops.linear_add(ops.norm_swiglu(x, layer.gate_up), layer.down, x.rows, norm, eps)
