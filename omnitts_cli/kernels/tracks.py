"""Tracks: what the codec's layers that look back hear, laid end to end in one buffer, and what a stream keeps of it.

A track is [B, past + T * rate, channels]: first what the stream remembers, then what this call adds. A
layer reads one unbroken stretch of time, whatever the size of the chunk, and remembering is a copy of the
track's last `past` columns. The tracks' tails, laid end to end in the same order, are a stream's state.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 1024
"""Numbers that one program of a kernel copies."""


@dataclass(frozen=True)
class Track:
    past: int  # columns
    rate: int  # columns a frame
    channels: int


@dataclass(frozen=True)
class Tracks:
    parts: tuple[Track, ...]
    table: Tensor  # [blocks, 5] int64: past before, rate before, past, rate (all times channels), first number

    @staticmethod
    def of(parts: list[Track], device: torch.device) -> Tracks:
        blocks, before_past, before_rate = [], 0, 0
        for part in parts:
            past, rate = part.past * part.channels, part.rate * part.channels
            blocks += [(before_past, before_rate, past, rate, first) for first in range(0, past, BLOCK)]
            before_past, before_rate = before_past + past, before_rate + rate
        return Tracks(tuple(parts), torch.tensor(blocks, dtype=torch.int64, device=device))

    @property
    def kept(self) -> int:
        """Numbers that a stream remembers."""
        return sum(part.past * part.channels for part in self.parts)

    def size(self, rows: int, frames: int) -> int:
        return rows * sum((part.past + part.rate * frames) * part.channels for part in self.parts)

    def views(self, buffer: Tensor, rows: int, frames: int) -> list[Tensor]:
        """The tracks in `buffer` [size]: [rows, past + frames * rate, channels] each."""
        shapes = [(rows, part.past + part.rate * frames, part.channels) for part in self.parts]
        pieces = buffer.split([length * columns * channels for length, columns, channels in shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]
