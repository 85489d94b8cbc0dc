"""The language side in C: a decoder stack as one call, and a whole frame of many slots as one call."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from omnitts_cli.kernels.cpu import library
from omnitts_cli.kernels.cpu.library import Library, address, check, panels
from omnitts_cli.kernels.cpu.stack import SMALL
from omnitts_cli.kernels.ops import FrameParts, LayerWeights

REAL, WHOLE, FLAG = torch.float32, torch.int64, torch.bool


class NativeStack:
    """A stack of layers with its weights in panels; the same call as `stack.FusedStack`."""

    most_rows = sys.maxsize

    def __init__(
        self, native: Library, blocks: Sequence[LayerWeights], norm: Tensor, kv_heads: int, eps: float
    ) -> None:
        self._native = native
        self._kept = [_layer(block, kv_heads) for block in blocks]
        layers = (library.Layer * len(blocks))(*(library.Layer(*map(address, kept)) for kept in self._kept))
        norm = norm.float().contiguous()
        self._kept.append((norm, layers))
        depth, (hidden, inner) = blocks[0].q_norm.shape[0], blocks[0].down.shape
        heads = blocks[0].out.shape[1] // depth
        self.struct = library.Stack(
            hidden, inner, heads, kv_heads, depth, len(blocks), eps, address(norm), ctypes.addressof(layers)
        )

    def __call__(
        self, rows: Tensor, positions: Tensor, slots: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        rows, positions = rows.contiguous(), positions.contiguous()
        each = slots[:, None].expand_as(positions).contiguous()  # [B, P]
        cache, out = cache_of(cos, sin, keys, values), torch.empty_like(rows)
        check(
            self._native.stack(
                ctypes.byref(self.struct),
                ctypes.byref(cache),
                address(rows),
                positions.numel(),
                address(each, WHOLE),
                address(positions, WHOLE),
                address(out),
            )
        )
        return out


def cache_of(cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor) -> library.Cache:
    """keys and values [layers, slots, kv, capacity, D]"""
    return library.Cache(address(keys), address(values), address(cos), address(sin), keys.shape[1], keys.shape[3])


def _layer(block: LayerWeights, kv_heads: int) -> tuple[Tensor, ...]:
    depth = block.q_norm.shape[0]
    norms = [block.q_norm.expand(block.out.shape[1] // depth, -1), block.k_norm.expand(kv_heads, -1)]
    gate, up = (block.gate_up * block.mlp_norm).chunk(2)
    return (
        panels(block.qkv * block.input_norm),
        torch.cat(norms),
        panels(block.out),
        torch.cat([panels(gate), panels(up)]),
        panels(block.down),
    )


def fuse_stack(
    native: Library, blocks: Sequence[LayerWeights], norm: Tensor, kv_heads: int, eps: float
) -> NativeStack | None:
    """The stack as one operation, or None if it is large: then most of the time goes to matrix products, which a
    library runs on several threads."""
    small = sum(weight.nbytes for block in blocks for weight in vars(block).values()) <= SMALL
    return NativeStack(native, blocks, norm, kv_heads, eps) if small and norm.dtype == torch.float32 else None


def fuse_frame(native: Library, parts: FrameParts) -> Callable[[Tensor], None] | None:
    """A frame of slots [B] as one call, or None if the stacks are not native."""
    talker, predictor = parts.talker, parts.predictor
    if not isinstance(talker, NativeStack) or not isinstance(predictor, NativeStack):
        return None
    table, controls = parts.table, parts.controls
    project = None if parts.project is None else (panels(parts.project[0]), parts.project[1])
    head, heads = panels(parts.head), torch.cat([panels(head) for head in parts.heads])
    inputs = (ctypes.c_void_p * len(parts.inputs))(*map(address, parts.inputs))
    made, stop = table.report
    struct = library.Frame(
        talker=ctypes.addressof(talker.struct),
        predictor=ctypes.addressof(predictor.struct),
        cache=cache_of(parts.cache.cos, parts.cache.sin, parts.cache.keys, parts.cache.values),
        rope_cos=address(parts.turns[0]),
        rope_sin=address(parts.turns[1]),
        head=address(head),
        heads=address(heads),
        project=project and address(project[0]),
        project_bias=project and address(project[1]),
        inputs=ctypes.addressof(inputs),
        first=address(parts.first),
        rest=address(parts.rest),
        vocabulary=parts.head.shape[0],
        audio=table.seen.shape[1],
        end=parts.end,
        groups=len(parts.heads) + 1,
        codes=parts.heads.shape[1],
        least_frames=parts.least_frames,
        stall=parts.stall,
        text_rows=table.text.shape[1],
        frames=table.codes.shape[1],
        made=address(made, WHOLE),
        stop=address(stop, WHOLE),
        made_codes=address(table.codes, WHOLE),
        seen=address(table.seen, FLAG),
        **{name: address(getattr(table, name)) for name in ("row", "text", "pad")},
        **{
            name: address(getattr(table, name), WHOLE)
            for name in ("position", "limit", "reference", "last", "repeats", "written")
        },
        **{name: address(getattr(table, name), FLAG) for name in ("live", "closed")},
        **{name: address(getattr(controls, name), WHOLE) for name in ("seed", "top_k", "predictor_top_k")},
        **{
            name: address(getattr(controls, name))
            for name in ("temperature", "top_p", "penalty", "predictor_temperature", "predictor_top_p")
        },
        ignore_end=address(controls.ignore_end, FLAG),
    )
    return _Frame(native, struct, (parts, project, head, heads, inputs))


class _Frame:
    """Keeps all tensors to which the C structure points."""

    def __init__(self, native: Library, struct: library.Frame, kept: tuple[Any, ...]) -> None:
        self._call, self._struct, self._kept = native.frame, struct, kept

    def __call__(self, slots: Tensor) -> None:
        check(self._call(ctypes.byref(self._struct), address(slots, WHOLE), slots.numel()))


def choose(
    native: Library,
    logits: Tensor,
    seeds: Tensor,
    frames: Tensor,
    group: int,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
) -> Tensor:
    """One code per row of logits [B, V]: [B] int64."""
    logits, codes = logits.float().contiguous(), torch.empty_like(seeds)
    check(
        native.choose(
            address(logits),
            *logits.shape,
            group,
            address(seeds, WHOLE),
            address(frames, WHOLE),
            address(temperature),
            address(top_k, WHOLE),
            address(top_p),
            address(codes, WHOLE),
        )
    )
    return codes
