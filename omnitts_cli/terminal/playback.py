"""Playback: the line shown while sound plays. Its position is that of the sound card, not of generation."""

from dataclasses import dataclass
from math import log10

from omnitts_cli.terminal.progress import duration

LEVEL_STEPS, LEVEL_STEP_DB = 8, 6.0
KEYS = "space pauses, q stops"
KEYS_PAUSED = "space resumes, q stops"


@dataclass(frozen=True)
class Playback:
    """The state of playback, in seconds of sound."""

    heard_s: float
    made_s: float  # so far; all of it where `complete`
    complete: bool = False
    expected_s: float | None = None  # of the whole, guessed from the text; None where its end is not known
    level: float = 0.0  # RMS of what is played now, 0..1
    paused: bool = False
    keys: bool = False  # whether keys are listened to

    @property
    def whole_s(self) -> float | None:
        """The total length: exact once everything is made, before that an estimate."""
        if self.complete:
            return self.made_s
        return None if self.expected_s is None else max(self.expected_s, self.made_s)

    @property
    def share(self) -> float | None:
        whole_s = self.whole_s
        return min(1.0, self.heard_s / whole_s) if whole_s else None

    @property
    def words(self) -> str:
        state = "paused" if self.paused else level_bar(self.level)
        whole_s = self.whole_s
        of = "" if whole_s is None else f" of {'' if self.complete else 'about '}{duration(whole_s)}"
        keys = f"   {KEYS_PAUSED if self.paused else KEYS}" if self.keys else ""
        return f"{state:<{LEVEL_STEPS}} {duration(self.heard_s)}{of}{keys}"


def level_bar(level: float) -> str:
    """A level of 0..1 as steps from silence to full scale."""
    steps = round(20 * log10(max(level, 1e-6)) / LEVEL_STEP_DB) + LEVEL_STEPS
    full = max(0, min(LEVEL_STEPS, steps))
    return "▮" * full + "▯" * (LEVEL_STEPS - full)
