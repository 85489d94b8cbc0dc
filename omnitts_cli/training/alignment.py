"""Aligns the letters of words with the sounds that they stand for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

MOST_UNITS = 3  # sounds of one letter: the x of "xml" has three


class LetterAlignment:
    """Probabilities that a letter stands for a chunk of sounds, improved by aligning again (hard EM)."""

    def __init__(self, units: Callable[[str], Sequence[str]]) -> None:
        self._units = units
        self._costs: dict[tuple[str, str], float] = {}

    def learn(self, pairs: Sequence[tuple[str, str]], rounds: int = 5) -> None:
        counts: Counter[tuple[str, str]] = Counter()
        for word, spoken in pairs:  # at first: sounds at the same relative position in the word
            sounds = self._units(spoken)
            for at, sound in enumerate(sounds):
                counts[word[at * len(word) // len(sounds)], sound] += 1
        self._count(counts)
        for _ in range(rounds):
            counts = Counter()
            for word, spoken in pairs:
                for letter, chunk in zip(word, self.align(word, spoken) or (), strict=False):
                    counts[letter, chunk] += 1
            self._count(counts)

    def _count(self, counts: Counter[tuple[str, str]]) -> None:
        letters: Counter[str] = Counter()
        for (letter, _), count in counts.items():
            letters[letter] += count
        self._costs = {pair: math.log(letters[pair[0]] / count) for pair, count in counts.items()}

    def align(self, word: str, spoken: str) -> list[str] | None:
        """The chunk of each letter; None if the word has too few letters for its sounds."""
        sounds, unseen = self._units(spoken), 12.0
        costs = self._costs
        best: list[dict[int, tuple[float, int]]] = [{0: (0.0, 0)}]
        for n, letter in enumerate(word):
            row: dict[int, tuple[float, int]] = {}
            left = len(word) - n - 1
            for at, (cost, _) in best[-1].items():
                for size in range(min(MOST_UNITS, len(sounds) - at) + 1):
                    if len(sounds) - at - size > MOST_UNITS * left:
                        continue
                    chunk = "".join(sounds[at : at + size])
                    total = cost + costs.get((letter, chunk), unseen + 2 * abs(size - 1))
                    if at + size not in row or total < row[at + size][0]:
                        row[at + size] = (total, at)
            best.append(row)
        if len(sounds) not in best[-1]:
            return None
        chunks, end = [], len(sounds)
        for row in reversed(best[1:]):
            begin = row[end][1]
            chunks.append("".join(sounds[begin:end]))
            end = begin
        return chunks[::-1]
