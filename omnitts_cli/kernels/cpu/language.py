"""The language side in C: a decoder stack as one call, and a whole frame of many slots as one call."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from omnitts_cli.kernels.cpu import library
from omnitts_cli.kernels.cpu.library import Library, address, check, panels, single
from omnitts_cli.kernels.ops import FrameParts, LayerWeights

REAL, WHOLE, FLAG = np.float32, np.int64, np.bool_


class NativeStack:
    """A stack of layers with its weights in panels; the same call as `stack.FusedStack`."""

    variant = "language.c"
    most_rows = sys.maxsize
    numbers = None

    def __init__(self, native: Library, blocks: Iterable[LayerWeights], norm: Any, kv_heads: int, eps: float) -> None:
        self._native = native
        self._kept = list[Any]()
        for block in blocks:  # may be read from a file one by one
            self._kept.append(_layer(block, kv_heads))
            depth, (hidden, inner) = block.q_norm.shape[0], block.down.shape
            heads = block.out.shape[1] // depth
        layers = (library.Layer * len(self._kept))(*(library.Layer(*map(address, kept)) for kept in self._kept))
        norm = single(norm)
        self._kept.append((norm, layers))
        self.struct = library.Stack(
            hidden, inner, heads, kv_heads, depth, len(layers), eps, address(norm), ctypes.addressof(layers)
        )

    def __call__(self, rows: Any, positions: Any, slots: Any, cos: Any, sin: Any, keys: Any, values: Any) -> Any:
        return run(self._native.stack, self.struct, rows, positions, slots, cache_of(cos, sin, keys, values))


def run(
    call: Callable[..., int],
    struct: library.Stack,
    rows: Any,
    positions: Any,
    slots: Any,
    cache: library.Cache,
    *more: int,
) -> Any:
    """The call of a stack on rows [B, P, H]."""
    given, at = np.ascontiguousarray(np.asarray(rows)), np.ascontiguousarray(np.asarray(positions))
    each = np.ascontiguousarray(np.broadcast_to(np.asarray(slots)[:, None], at.shape))  # [B, P]
    out = np.empty_like(given)
    where = address(given), at.size, address(each, WHOLE), address(at, WHOLE), address(out)
    check(call(ctypes.byref(struct), ctypes.byref(cache), *where, *more))
    return out


def cache_of(cos: Any, sin: Any, keys: Any, values: Any, kind: Any = REAL) -> library.Cache:
    """keys and values [layers, slots, kv, capacity, D] of type `kind`."""
    held = address(keys, kind), address(values, kind), address(cos), address(sin)
    return library.Cache(*held, keys.shape[1], keys.shape[3])


def _layer(block: LayerWeights, kv_heads: int) -> tuple[np.ndarray, ...]:
    heads = block.out.shape[1] // block.q_norm.shape[0]
    return (
        panels(block.qkv, block.input_norm),
        head_norms(block, heads, kv_heads),
        panels(block.out),
        panels(block.gate_up, block.mlp_norm, 2),
        panels(block.down),
    )


def head_norms(block: LayerWeights, heads: int, kv_heads: int) -> np.ndarray:
    """[heads + kv heads, D]"""
    q_norm, k_norm = np.asarray(block.q_norm), np.asarray(block.k_norm)
    return single(np.concatenate([np.tile(q_norm, (heads, 1)), np.tile(k_norm, (kv_heads, 1))]))


def fuse_stack(native: Library, blocks: Sequence[LayerWeights], norm: Any, kv_heads: int, eps: float) -> NativeStack:
    """The stack as one operation."""
    return NativeStack(native, blocks, norm, kv_heads, eps)


def fuse_frame(native: Library, parts: FrameParts) -> Callable[[Any], None]:
    """A frame of slots [B] as one call."""
    project = None if parts.project is None else panels(parts.project[0])
    head, heads = panels(parts.head), [panels(head) for head in parts.heads]
    cache = cache_of(parts.cache.cos, parts.cache.sin, parts.cache.keys, parts.cache.values)
    matrices = address(head), [address(one) for one in heads], project if project is None else address(project)
    return CompiledFrame(native.frame, parts, cache, matrices, (head, heads, project))


PromptRows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows of prompts [N, H], their slots [N] and positions [N]; those of a slot in the order of their positions."""
Matrices = tuple[int, list[int], int | None]
"""Addresses of the talker's head, of the predictor's heads, and of the projection between them, if there is one."""


class CompiledFrame:
    """Keeps all tensors to which the C structure points."""

    def __init__(
        self,
        call: Callable[..., int],
        parts: FrameParts,
        cache: library.Cache,
        matrices: Matrices,
        kept: tuple[Any, ...],
        *more: int,  # arguments of the call
    ) -> None:
        head, heads, project = matrices
        pointers = (ctypes.c_void_p * len(heads))(*heads), (ctypes.c_void_p * len(heads))(*map(address, parts.inputs))
        self._call, self._more, self._kept = call, more, (parts, kept, pointers)
        codes = parts.inputs[0].shape[0]
        self._struct = library.Frame(
            talker=ctypes.addressof(parts.talker.struct),  # type: ignore[attr-defined]
            predictor=ctypes.addressof(parts.predictor.struct),  # type: ignore[attr-defined]
            cache=cache,
            rope_cos=address(parts.turns[0]),
            rope_sin=address(parts.turns[1]),
            head=head,
            heads=ctypes.addressof(pointers[0]),
            project=project,
            project_bias=None if parts.project is None else address(parts.project[1]),
            inputs=ctypes.addressof(pointers[1]),
            first=address(parts.first),
            rest=address(parts.rest),
            vocabulary=parts.first.shape[0],
            end=parts.end,
            groups=len(heads) + 1,
            codes=codes,
            least_frames=parts.least_frames,
            stall=parts.stall,
            **_columns(parts),
        )

    def __call__(self, slots: Any, prompts: PromptRows | None = None) -> None:
        """Before, the keys and values of `prompts` are written."""
        given = library.Prompts()
        if prompts is not None:
            rows, at, where = map(np.ascontiguousarray, prompts)
            given = library.Prompts(address(rows), address(at, WHOLE), address(where, WHOLE), len(rows))
        called = address(slots, WHOLE), slots.shape[0], ctypes.byref(given)
        check(self._call(ctypes.byref(self._struct), *called, *self._more))


def _columns(parts: FrameParts) -> dict[str, int]:
    """The fields that belong to the slots."""
    table, controls = parts.table, parts.controls
    made, stop = table.report
    kinds = {
        REAL: (
            (table, ("row", "text", "pad")),
            (controls, ("temperature", "top_p", "penalty", "predictor_temperature", "predictor_top_p")),
        ),
        WHOLE: (
            (table, ("position", "limit", "reference", "last", "repeats", "written")),
            (controls, ("seed", "top_k", "predictor_top_k")),
        ),
        FLAG: ((table, ("live", "closed", "seen")), (controls, ("ignore_end",))),
    }
    fields = {
        name: address(getattr(owner, name), kind)
        for kind, owners in kinds.items()
        for owner, names in owners
        for name in names
    }
    return fields | {
        "audio": table.seen.shape[1],
        "text_rows": table.text.shape[1],
        "frames": table.codes.shape[1],
        "made": address(made, WHOLE),
        "stop": address(stop, WHOLE),
        "made_codes": address(table.codes, WHOLE),
    }


def choose(
    native: Library,
    logits: Any,
    seeds: Any,
    frames: Any,
    group: int,
    temperature: Any,
    top_k: Any,
    top_p: Any,
) -> Any:
    """One code per row of logits [B, V]: [B] int64."""
    scores, codes = single(logits), np.empty(seeds.shape, WHOLE)
    check(
        native.choose(
            address(scores),
            *scores.shape,
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
