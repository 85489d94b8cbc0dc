"""Ten descriptions of a voice, and whether speech obeys one: sex and pitch by F0, pace by the same seed without it."""

from __future__ import annotations

import math
from dataclasses import dataclass

SEXES = 160.0  # Hz, between men and women
DEEP, LOW = 119.0, 188.0  # Hz, for a man and a woman: midway between what training calls deep and high
HIGHEST_MAN, LOWEST_WOMAN = 200.0, 130.0  # Hz: beyond these it counts as the other sex


@dataclass(frozen=True)
class Description:
    """`hertz`: the range of pitch. `pace`: 1 must be faster than `plain` with the same seed, -1 slower."""

    words: str
    hertz: tuple[float, float]
    pace: int = 0
    plain: str = ""

    def obeyed(self, hertz: float, seconds: float, plain_seconds: float) -> bool:
        low, high = self.hertz
        return low <= hertz < high and (not self.pace or (plain_seconds - seconds) * self.pace > 0)


MAN, WOMAN = (0.0, SEXES), (SEXES, math.inf)
DESCRIPTIONS = (
    Description("a man", MAN),
    Description("a woman", WOMAN),
    Description("a man with a deep voice", (0.0, DEEP)),
    Description("a man with a high voice", (DEEP, HIGHEST_MAN)),
    Description("a woman with a low voice", (LOWEST_WOMAN, LOW)),
    Description("a woman with a high voice", (LOW, math.inf)),
    Description("a man who speaks slowly", MAN, -1, "a man"),
    Description("a man who speaks fast", MAN, 1, "a man"),
    Description("a woman who speaks slowly", WOMAN, -1, "a woman"),
    Description("a woman who speaks fast", WOMAN, 1, "a woman"),
)
