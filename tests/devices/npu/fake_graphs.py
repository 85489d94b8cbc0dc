"""Graphs of the fake NPU: a captured step is a list of ops over fixed addresses, replayed without its Python.

Memory of the outside is known by its address only, as in the real thing: it must still be there at replay. What
the step made is spoilt before each replay, so that nothing old is read. A view of a result is good until the next
replay. Operators that were given lengths by the host want an update before each replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves, tree_map

SPOILT = {torch.bool: True, torch.int64: -(2**40), torch.int32: -(2**20), torch.uint8: 77, torch.int8: 77}
LENGTHS = ("actual_seq_lengths", "actual_seq_lengths_kv")


class Hazard(AssertionError):
    """Something that works on a CPU and would not on a device with streams and graphs."""


def storage(raw: Tensor) -> int:
    return raw.untyped_storage()._cdata


def tensors_of(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


class Outer:
    """A tensor whose memory belongs to somebody else: an address, which must hold at every replay."""

    def __init__(self, raw: Tensor) -> None:
        self._memory, self._address = StorageWeakRef(raw.untyped_storage()), raw.untyped_storage().data_ptr()
        self._like = (raw.dtype, raw.storage_offset(), raw.shape, raw.stride())

    def tensor(self) -> Tensor:
        memory = None if self._memory.expired() else torch.UntypedStorage._new_with_weak_ptr(self._memory.cdata)
        if memory is None or memory.data_ptr() != self._address:
            raise Hazard("memory that a captured step uses has moved or is gone")
        dtype, *place = self._like
        return torch.empty(0, dtype=dtype).set_(memory, *place)


@dataclass
class Op:
    func: Any
    args: Any
    kwargs: dict[str, Any]
    outs: list[Tensor]  # where results belong; empty for ops that write their arguments

    @property
    def measured(self) -> bool:
        """Whether the host told it lengths."""
        return any(self.kwargs.get(name) is not None for name in LENGTHS)

    def run(self) -> None:
        args, kwargs = tree_map(
            lambda leaf: leaf.tensor() if isinstance(leaf, Outer) else leaf, (self.args, self.kwargs)
        )
        for out, result in zip(self.outs, tensors_of(self.func(*args, **kwargs)), strict=False):
            out.copy_(result)


class Recorded:
    """What one capture recorded."""

    def __init__(self, updatable: bool) -> None:
        self.ops: list[Op] = []
        self.replays = 0
        self._updatable, self._updated = updatable, False
        self.made: dict[int, Tensor] = {}  # by storage; the graph's own memory

    def record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        inputs = {storage(raw) for raw in tensors_of((args, kwargs))}
        writes = any(a.alias_info and a.alias_info.is_write for a in func._schema.arguments)
        outs = [] if writes else [out for out in tensors_of(result) if storage(out) not in inputs]
        if not outs and not writes:
            return  # a view
        self.ops.append(Op(func, *tree_map(self._place, (args, dict(kwargs))), outs))
        self.made |= {storage(out): out for out in outs}

    def _place(self, leaf: Any) -> Any:
        return Outer(leaf) if isinstance(leaf, Tensor) and storage(leaf) not in self.made else leaf

    def update(self, told: Sequence[dict[str, Any]]) -> None:
        measured = [op for op in self.ops if op.measured]
        told = list(told) * len(measured) if len(told) == 1 else told
        if len(told) != len(measured):
            raise RuntimeError(f"{len(measured)} operators want an update, {len(told)} were given")
        for op, lengths in zip(measured, told, strict=True):
            op.kwargs |= {name: value for name, value in lengths.items() if name in op.kwargs}
        self._updated = True

    def run(self) -> None:
        if any(op.measured for op in self.ops) and not self._updated:
            raise Hazard("an operator with lengths of the host is replayed without an update")
        self._updated = False
        self.replays += 1
        with torch.no_grad():
            for out in (out for op in self.ops for out in op.outs):
                out.fill_(SPOILT.get(out.dtype, float("nan")))
            for op in self.ops:
                op.run()


class Graphs:
    """All graphs of the process, and the one that is being captured."""

    def __init__(self) -> None:
        self.capturing: Recorded | None = None
        self.all: list[Recorded] = []
        self._owner: dict[int, Recorded] = {}

    def begin(self, updatable: bool) -> Recorded:
        if self.capturing is not None:
            raise Hazard("a capture inside a capture")
        self.capturing = Recorded(updatable)
        return self.capturing

    def end(self) -> None:
        recorded, self.capturing = self.capturing, None
        if recorded is not None:
            self.all.append(recorded)
            self._owner |= dict.fromkeys(recorded.made, recorded)

    def age(self, raw: Tensor) -> int | None:
        """Which replay a tensor made now over a graph's memory belongs to; None elsewhere, and while capturing."""
        owner = None if self.capturing else self._owner.get(storage(raw))
        return None if owner is None else owner.replays

    def check_age(self, raw: Tensor, born: int | None) -> None:
        if born is not None and not self.capturing and self._owner[storage(raw)].replays != born:
            raise Hazard("a view of a graph's result is read after the next replay has overwritten it")
