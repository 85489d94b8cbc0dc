"""The interface between families and the engine: SpeechModel and its roles; prompts.py has what becomes a prompt. A
family implements the roles; the engine does not know which family it was. Nothing here imports a family, the engine, a
device or torch.

Letters in shape comments: B rows, G code groups, T frames, P prompt rows, N text rows, H hidden
width of the talker, V codes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from omnitts_cli.kernels.arrays import zeros
from omnitts_cli.kernels.ops import EIGHT, Columns, Ops, type_name
from omnitts_cli.models.prompts import Prompter
from omnitts_cli.models.shapes import Facts
from omnitts_cli.request import Sampling

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    Tensor = Any


class Cloner(Protocol):
    """Encodes a clip: its frames and its voice. `sound` is mono float32 at the model's sample rate."""

    def codes(self, sound: np.ndarray) -> np.ndarray:
        """[T, G] int64."""
        ...

    def embedding(self, sound: np.ndarray) -> np.ndarray:
        """[H] float32, the speaker's vector."""
        ...


Prefix = tuple[Tensor, Tensor]
"""Keys and values of the first positions of one slot: [layers, 1, kv_heads, rows, head_dim] each."""


class KeyValues:
    """Keys and values of all slots, and the rotation of every position. A child class has the arrays.

    Old positions need no clearing: attention reads a position only after the request that owns the slot has written it.
    """

    keys: Tensor  # [layers, slots, kv_heads, capacity, head_dim], contiguous
    values: Tensor  # the same
    cos: Tensor  # [capacity, head_dim / 2] float32
    sin: Tensor

    @property
    def capacity(self) -> int:
        """Positions per slot."""
        raise NotImplementedError

    def copy_prefix(self, prefix: Prefix, rows: int, slots: Tensor) -> None:
        """Copy the first `rows` positions of `prefix` into each of `slots` [N]."""
        for mine, kept in zip((self.keys, self.values), prefix, strict=True):
            mine[:, slots, :, :rows] = kept[:, :, :, :rows]

    def prefix(self, rows: int, slot: int) -> Prefix:
        """A copy of the first `rows` positions of a slot."""
        raise NotImplementedError

    def clear(self, slot: int) -> None:
        """Zero a slot. Only needed after NaN: a masked NaN still spreads through sums."""
        for part in (self.keys, self.values):
            part[:, slot : slot + 1] = 0


class SlotDecoder:
    """A codec with the state of many streams in slots."""

    in_c = False  # decoding is one call that releases Python's lock; calls for different slots may run in parallel
    beside = False  # such a call has one thread, so it runs beside the frames
    decode: Callable[[Tensor, Tensor], Tensor]
    """The next codes [B, T, G] of slots [B] -> sound [B, T * samples_per_frame] float32."""

    def prepare(self, sizes: Sequence[tuple[int, int]]) -> None:
        """Announces the sizes of later calls, (frames, rows). Most decoders have nothing to do."""

    def clear(self, slots: Tensor) -> None:
        """New streams start in `slots` [N]. Keys and values stay: those before the first frame are masked."""
        raise NotImplementedError


@dataclass(frozen=True)
class Controls:
    """Per-row settings, each [B] (in a slot table: [slots])."""

    seed: Tensor  # int64
    temperature: Tensor  # float32; 0: the likeliest
    top_k: Tensor  # int64; 0: all
    top_p: Tensor  # float32
    penalty: Tensor  # float32; of group 0
    predictor_temperature: Tensor
    predictor_top_k: Tensor
    predictor_top_p: Tensor
    ignore_end: Tensor  # bool; the end code is never chosen

    def rows(self, slots: Tensor, ops: Ops) -> Controls:
        """The settings of some slots: every column indexed by `slots` [B]."""
        return Controls(*ops.pick([getattr(self, f.name) for f in fields(self)], slots))

    @staticmethod
    def empty(slots: int, device: torch.device | str | None) -> Controls:
        """Columns for `slots` slots, greedy until they are written."""
        kinds = {"seed": "int64", "top_k": "int64", "predictor_top_k": "int64", "ignore_end": "bool"}
        columns = {f.name: zeros((slots,), kinds.get(f.name, "float32"), device) for f in fields(Controls)}
        columns["penalty"] += 1
        return Controls(**columns)


@dataclass
class SpeechModel(ABC):
    """A loaded model: what the engine asks of it. `speakers` maps each named voice to one line about it."""

    name: str
    facts: Facts
    prompter: Prompter
    cloner: Cloner | None
    sampling: Sampling  # the model's own values, none of them None
    kinds: frozenset[str]  # of "named", "cloned", "designed"
    speakers: dict[str, str]
    languages: tuple[str, ...]
    device: torch.device | None  # of its arrays; None: those of NumPy
    dtype: Any  # of its rows
    sha256: str | None = None
    longest_piece: int | None = None  # letters of a text that it speaks well in one request
    plain_letters: bool = False  # it reads English letters and ,.!?'- only
    obeys_style: bool = False  # whether its named voices follow an instruction
    vector_of: Callable[[str], np.ndarray] | None = None  # a named voice as a vector, where clones are spoken too
    adapter: str | None = None  # the sum of the adapter that was merged into the weights

    @property
    @abstractmethod
    def precision(self) -> str:
        """Of the matrices of talker and predictor: "float32", "q8" ..."""

    @property
    @abstractmethod
    def together(self) -> tuple[int, int] | None:
        """Requests that are best made together on a CPU: while someone listens, and for a file. None: the usual."""

    @property
    @abstractmethod
    def stream_bytes(self) -> int:
        """What the codec keeps of one stream."""

    @abstractmethod
    def cache(self, slots: int, capacity: int) -> KeyValues:
        """Empty keys and values of the talker."""

    @abstractmethod
    def prefill(self, rows: Tensor, start: Tensor, slots: Tensor, cache: KeyValues, width: int) -> None:
        """Rows [B, P, H] at positions start [B] + 0..P-1 of `slots` [B] into the cache."""

    @abstractmethod
    def frames(self, table: Columns, cache: KeyValues, stall: int) -> Callable[[Tensor, int], None]:
        """What advances slots [B] by one frame, in place; its second argument bounds every position of the call."""

    @abstractmethod
    def decoder(self, slots: int, longest: int) -> SlotDecoder:
        """The codec, for so many slots and chunks of up to `longest` frames."""

    @abstractmethod
    def check(self) -> None:
        """Raise an error if an earlier frame went wrong. Does not wait for the device."""

    def call_bytes(self, frames: int, rows: int) -> int:
        """Estimates the device memory of one call of the codec."""
        return 0

    def prompt_bytes(self, rows: int) -> int:
        """Estimates the device memory of a step of so many prompt rows."""
        return 0


def precision_name(dtype: object) -> str:
    """A precision as users read it."""
    name = type_name(dtype)
    return "q8" if name == EIGHT else name
