"""The verdict: whether a tuned voice is more like the person than a plain clone with the same vector.

Both speak the same sentences with the same seeds. The model's own speaker encoder compares each with recordings that
were not learned. The gain counts if its interval lies above zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from omnitts_cli.models.roles import Cloner
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.voices import Voice

SENTENCES = (
    "The boat drifted slowly past the old stone bridge.",
    "Could you tell me when the next train leaves?",
    "She packed bread, cheese and a bottle of cold water.",
    "It rained all night, but the morning was bright and still.",
    "Nobody expected the small shop to stay open so late.",
    "Turn left at the church and walk until you see the river.",
    "What a strange and beautiful sound that was!",
    "He has lived in the same house for more than forty years.",
)
MOST = 20  # sentences
SURE = 1.96


@dataclass(frozen=True)
class Compared:
    """Means over the sentences: cosines to the person, and letters a second."""

    sentences: int
    cloned: float
    tuned: float
    interval: float  # half of the 95 % interval of the gain
    pace_cloned: float
    pace_tuned: float
    pace_recorded: float

    @property
    def gain(self) -> float:
        return self.tuned - self.cloned

    @property
    def won(self) -> bool:
        """Whether the gain is above chance."""
        return self.gain - self.interval > 0

    @property
    def words(self) -> str:
        return (
            f"likeness {self.tuned:.3f}, a plain clone {self.cloned:.3f} (gain {self.gain:+.3f} ± {self.interval:.3f}, "
            f"{self.sentences} sentences); {self.pace_tuned:.1f} letters a second, clone {self.pace_cloned:.1f}, "
            f"recordings {self.pace_recorded:.1f}"
        )


@dataclass(frozen=True, eq=False)
class Sample:
    sound: np.ndarray
    likeness: float
    pace: float


def spoken(
    tts: TTS, voice: Voice, cloner: Cloner, texts: Sequence[str], person: np.ndarray, look: Callable[[int], None]
) -> list[Sample]:
    """The sentences in a voice, and how like the person they are."""
    found = []
    for number, text in enumerate(texts):
        look(number)
        clip = tts.speak(text, voice=voice, seed=number)
        vector = cloner.embedding(clip.samples)
        found.append(Sample(clip.samples, cosine(vector, person), pace_of(text, clip.seconds)))
    return found


def compare(cloned: Sequence[Sample], tuned: Sequence[Sample], pace: float) -> Compared:
    gains = np.array([one.likeness - other.likeness for one, other in zip(tuned, cloned, strict=True)])
    interval = SURE * float(gains.std(ddof=1)) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf

    def mean(samples: Sequence[Sample], name: str) -> float:
        return float(np.mean([getattr(sample, name) for sample in samples]))

    return Compared(
        len(gains), mean(cloned, "likeness"), mean(tuned, "likeness"), interval,
        mean(cloned, "pace"), mean(tuned, "pace"), pace,
    )  # fmt: skip


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / max(1e-9, float(np.linalg.norm(one) * np.linalg.norm(other))))


def pace_of(text: str, seconds: float) -> float:
    """Letters a second."""
    return sum(c.isalnum() for c in text) / max(seconds, 0.1)
