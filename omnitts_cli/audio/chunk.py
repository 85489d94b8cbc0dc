"""Chunk and Clip: a part of a sound that is still being made, and a complete sound."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Stopped = Literal["end", "limit", "stall", "silence", "cancelled"]


@dataclass(frozen=True, eq=False)
class Chunk:
    """A run of frames of one request as sound. The last chunk says why it stopped; it may be empty."""

    request: str
    index: int
    pcm: np.ndarray  # [samples] float32, owned by the receiver
    codes: np.ndarray  # [frames, G] int64
    last: bool = False
    stopped: Stopped | None = None
    tokens: int = 0  # of the request's text so far


@dataclass(frozen=True, eq=False)
class Clip:
    """The whole sound of one request: always the join of its chunks."""

    pcm: np.ndarray  # [samples] float32
    codes: np.ndarray  # [frames, G] int64
    stopped: Stopped | None = field(default=None)

    @staticmethod
    def join(chunks: Iterable[Chunk]) -> "Clip":
        parts = list(chunks)
        if not parts:
            return Clip(np.zeros(0, np.float32), np.zeros((0, 0), np.int64))
        return Clip(
            np.concatenate([c.pcm for c in parts]),
            np.concatenate([c.codes for c in parts]),
            parts[-1].stopped,
        )
