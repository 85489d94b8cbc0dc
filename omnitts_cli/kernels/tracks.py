"""Tracks: the inputs of the codec's causal layers in one buffer, and how much of each a stream keeps as history.

A track is [B, past + T * rate, channels]: the stream's history first, then the columns of this call. A layer reads
contiguous time, whatever the size of the chunk, and saving the history is a copy of the track's last `past` columns.
The histories of all tracks, concatenated in the same order, are a stream's convolution state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

BLOCK = 1024
"""Elements copied by one program of a kernel."""


@dataclass(frozen=True)
class Track:
    """One layer's input."""

    past: int  # columns
    rate: int  # columns a frame
    channels: int


@dataclass(frozen=True)
class Tracks:
    """All of them, in the order of the layers."""

    parts: tuple[Track, ...]
    table: Tensor | None  # [blocks, 5] int64: past before, rate before, past, rate (all times channels), first number

    @staticmethod
    def of(parts: list[Track], device: torch.device) -> Tracks:
        """The tracks, with the table that a kernel copies by."""
        import torch

        blocks, before_past, before_rate = [], 0, 0
        for part in parts:
            past, rate = part.past * part.channels, part.rate * part.channels
            blocks += [(before_past, before_rate, past, rate, first) for first in range(0, past, BLOCK)]
            before_past, before_rate = before_past + past, before_rate + rate
        return Tracks(tuple(parts), torch.tensor(blocks, dtype=torch.int64, device=device))

    def size(self, rows: int, frames: int) -> int:
        """Elements of the buffer of one call."""
        return rows * sum((part.past + part.rate * frames) * part.channels for part in self.parts)

    def views(self, buffer: Tensor, rows: int, frames: int) -> list[Tensor]:
        """The tracks in `buffer` [size]: [rows, past + frames * rate, channels] each."""
        shapes = [(rows, part.past + part.rate * frames, part.channels) for part in self.parts]
        pieces = buffer.split([length * columns * channels for length, columns, channels in shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]
