"""Voice: who speaks. Named, Cloned or Designed; plain values, no torch.

Cloning and design are ways to get a voice, not modes of the engine: only `families/*/` distinguishes the three.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Named:
    """A speaker that the model knows by name; matched without regard to case. Empty: no speaker row."""

    speaker: str = ""


@dataclass(frozen=True, eq=False)
class Cloned:
    """A voice cloned from a clip: its embedding and, with a transcript, the codes of the clip.

    `codes` and `transcript` are both there (the model continues the clip) or both absent. `gains` change the sound's
    spectrum to the clip's; None leaves it as the model makes it.
    """

    embedding: np.ndarray  # [H] float32
    codes: np.ndarray | None = None  # [T, G] int64
    transcript: str | None = None
    gains: np.ndarray | None = None  # [bands] float32, dB


@dataclass(frozen=True)
class Designed:
    """A voice made from a description in words; the description may be empty."""

    description: str = ""


Voice = Named | Cloned | Designed


@dataclass(frozen=True, eq=False)
class Pair:
    """What an adapter adds to a linear layer: scale * b @ a."""

    a: np.ndarray  # [rank, inputs] float32
    b: np.ndarray  # [outputs, rank] float32
    scale: float


@dataclass(frozen=True, eq=False)
class Adapter:
    """What tuning has learned: a pair for each linear layer, by its name in the checkpoint, without ".weight"."""

    pairs: Mapping[str, Pair]

    @property
    def nbytes(self) -> int:
        """The memory that its numbers take."""
        return sum(pair.a.nbytes + pair.b.nbytes for pair in self.pairs.values())

    @cached_property
    def sha256(self) -> str:
        """Of all its numbers: adapters with equal sums are the same."""
        total = hashlib.sha256()
        for name in sorted(self.pairs):
            pair = self.pairs[name]
            total.update(f"{name} {pair.scale!r} {pair.a.shape} {pair.b.shape}".encode())
            total.update(np.ascontiguousarray(pair.a, np.float32).tobytes())
            total.update(np.ascontiguousarray(pair.b, np.float32).tobytes())
        return total.hexdigest()
