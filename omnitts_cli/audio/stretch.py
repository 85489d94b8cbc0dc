"""Faster or slower speech at the same pitch: WSOLA, block by block. Streamed and whole give the same samples.

Each output block fades from where the sound would go on by itself to the most similar place near where
the speed says it should be, so that periods of the voice stay whole.
"""

import numpy as np

from omnitts_cli.errors import UsageError

SLOWEST, FASTEST = 0.5, 2.0
WIDEST = (0.25, 4.0)  # of servers that follow OpenAI
BLOCK_S = 0.02  # one period of a 50 Hz voice
SEARCH_S = 0.012


class Stretcher:
    """`feed` and `flush`, joined, are `round(samples / speed)` samples. Speed 1 changes nothing."""

    def __init__(self, speed: float, rate: int = 24_000, limits: tuple[float, float] = (SLOWEST, FASTEST)) -> None:
        if not limits[0] <= speed <= limits[1]:
            raise UsageError(f"--speed {speed:g} is outside {limits[0]:g}-{limits[1]:g}")
        self._speed = speed
        self._block, self._search = round(BLOCK_S * rate), round(SEARCH_S * rate)
        if speed != 1.0:  # a server makes a stretcher for each piece, and most of them change nothing
            self._fade = np.sin(np.linspace(0.0, np.pi / 2, self._block, endpoint=False)) ** 2  # [block]
        self._input = np.zeros(0, np.float32)
        self._base = 0  # position of _input[0] in the whole sound
        self._fed = self._given = self._made = 0  # samples in, samples out, blocks out
        self._natural = 0  # where the sound would go on by itself
        self._ended = False

    def feed(self, samples: np.ndarray) -> np.ndarray:
        """The samples that are final after this block, possibly empty."""
        if self._speed == 1.0:
            return samples
        self._fed += samples.size
        self._input = np.concatenate([self._input, samples.astype(np.float32, copy=False)])
        return self._blocks()

    def flush(self) -> np.ndarray:
        """The rest."""
        if self._speed == 1.0:
            return np.zeros(0, np.float32)
        missing = round(self._fed / self._speed) - self._given
        reach = self._block * 2 + self._search * 2 + round(missing * self._speed) + self._block
        self._input = np.concatenate([self._input, np.zeros(reach, np.float32)])
        self._ended = True
        rest = self._blocks()[:missing]
        return np.pad(rest, (0, missing - rest.size))

    def _blocks(self) -> np.ndarray:
        made = []
        while (block := self._next()) is not None:
            made.append(block)
        out = np.concatenate([np.zeros(0, np.float32), *made])
        self._given += out.size
        return out

    def _next(self) -> np.ndarray | None:
        """The next output block, or None until enough has arrived."""
        target = round(self._made * self._block * self._speed)
        end = max(target + self._search, self._natural) + self._block
        due = (self._made + 1) * self._block * self._speed  # samples in, for this much out
        if end > self._base + self._input.size or (due > self._fed and not self._ended):
            return None
        going_on = self._at(self._natural, self._natural + self._block)
        chosen = self._most_similar(going_on, target) if self._made else 0
        block = going_on * (1.0 - self._fade) + self._at(chosen, chosen + self._block) * self._fade
        self._natural = chosen + self._block
        self._made += 1
        self._forget(min(self._natural, round(self._made * self._block * self._speed) - self._search))
        return block.astype(np.float32)

    def _at(self, start: int, end: int) -> np.ndarray:
        return self._input[start - self._base : end - self._base]

    def _most_similar(self, going_on: np.ndarray, target: int) -> int:
        """The position within the search range whose block is most like `going_on`."""
        lowest = max(target - self._search, self._base)
        range_ = self._at(lowest, target + self._search + self._block).astype(np.float64)
        energy = np.concatenate([[0.0], np.cumsum(np.square(range_))])
        power = energy[self._block :] - energy[: -self._block]  # [candidates]
        likeness = np.correlate(range_, going_on.astype(np.float64), "valid") / np.sqrt(power + 1e-9)
        best = int(np.argmax(likeness))
        return lowest + best if likeness[best] > 1e-6 else target

    def _forget(self, position: int) -> None:
        gone = max(0, position - self._base)
        self._input = self._input[gone:]
        self._base += gone


def stretch(samples: np.ndarray, speed: float, rate: int = 24_000) -> np.ndarray:
    """The whole sound at another speed, pitch kept."""
    stretcher = Stretcher(speed, rate)
    return np.concatenate([stretcher.feed(samples), stretcher.flush()])
