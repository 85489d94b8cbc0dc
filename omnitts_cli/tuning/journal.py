"""The journal of a stage (JSON lines, for curves and for watching), its time budget, and the learning rate."""

import json
import math
import sys
import time
from pathlib import Path


class Journal:
    """Appends lines to the journal file. `echo`: also to standard error, where a stage prints nothing else."""

    def __init__(self, path: Path, stage: str, echo: bool = True) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        broken_off = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")  # by a killed process
        self._file = path.open("a")
        self._file.write("\n" if broken_off else "")
        self._stage, self._echo, self._started = stage, echo, time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def write(self, **values: object) -> None:
        rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}
        line = json.dumps({"stage": self._stage, "seconds": round(self.seconds, 1), **rounded})
        self._file.write(line + "\n")
        self._file.flush()
        if self._echo:
            sys.stderr.write(line + "\n")


class Budget:
    """The time that a stage may train for. It begins when `spent` is first read, so that what is compiled before the
    first step is not counted."""

    def __init__(self, minutes: float) -> None:
        self._seconds, self._started = minutes * 60, math.inf

    @property
    def spent(self) -> float:
        """0 at the start, 1 when nothing is left."""
        now = time.monotonic()
        self._started = min(self._started, now)
        return min(1.0, (now - self._started) / self._seconds) if self._seconds > 0 else 1.0


def falling_rate(spent: float, highest: float, last: float, step: int, warm_up: int) -> float:
    """The learning rate when a share of the time is spent: a cosine from `highest` to `last`, after a linear
    warm-up."""
    falling = last + (highest - last) * 0.5 * (1 + math.cos(math.pi * spent))
    return falling * min(1.0, (step + 1) / warm_up)
