"""Joining pieces: silence in the gaps, and short fades at the two edges of a gap. Nothing inside a piece changes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnitts_cli.audio.pcm import silence

FADE_S = 0.005
"""Long enough to take a click away, short enough for no ear to miss a sound."""


class Joiner:
    """Puts pieces one after the other. The first piece's start and the last one's end stay as they were made.

    For each piece: `piece(gap_s)` once, then `feed` its blocks. What comes back goes to the sink. The last
    5 ms of a piece wait until it is known whether another follows: `finish` gives them out unfaded.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._fade = round(FADE_S * rate)
        self._held = np.zeros(0, np.float32)  # the end of the piece, at most a fade long
        self._fed = 0  # samples of this piece
        self._first = True
        self._begun = False

    def piece(self, gap_s: float) -> np.ndarray:
        """Begins a piece; gives the faded end of the one before and the gap."""
        if not self._begun:
            self._begun = True
            return silence(gap_s, self._rate)
        self._first = False
        end = self._held * np.linspace(1.0, 0.0, self._held.size, dtype=np.float32)
        self._held, self._fed = np.zeros(0, np.float32), 0
        return np.concatenate([end, silence(gap_s, self._rate)])

    def feed(self, samples: np.ndarray) -> np.ndarray:
        """A block of the piece; gives what may leave."""
        block = np.array(samples, np.float32)
        if not self._first and self._fed < self._fade:
            ramp = np.arange(self._fed, min(self._fade, self._fed + block.size), dtype=np.float32) / self._fade
            block[: ramp.size] *= ramp
        self._fed += block.size
        whole = np.concatenate([self._held, block])
        leaves = max(0, whole.size - self._fade)
        self._held = whole[leaves:]
        return whole[:leaves]

    def finish(self) -> np.ndarray:
        """The end of the last piece."""
        held, self._held = self._held, np.zeros(0, np.float32)
        return held


def join(pieces: list[tuple[float, np.ndarray]], rate: int) -> np.ndarray:
    """The whole of (gap in front in seconds, sound) pairs."""

    def parts() -> Iterator[np.ndarray]:
        joiner = Joiner(rate)
        for gap_s, sound in pieces:
            yield joiner.piece(gap_s)
            yield joiner.feed(sound)
        yield joiner.finish()

    return np.concatenate([np.zeros(0, np.float32), *parts()])
