"""The verdict: whether a tuned voice is better than a plain clone.

Both speak the same sentences with the same seeds. The model's own speaker encoder compares each with recordings that
were not learned. A speech recogniser counts word errors; where there is none, the model that was not tuned listens (see
`heard`). The tuned voice wins if it is more like the person and has kept its words, or if it is as like the person and
its words are better. A difference counts if its interval does not reach zero.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from omnitts_cli.errors import GuardError
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
    "The children built a tall tower out of wooden blocks.",
    "We should leave early if we want to avoid the traffic.",
    "A cold wind blew across the empty market square.",
    "Please put the heavy boxes next to the kitchen door.",
    "The doctor asked him how long he had been feeling ill.",
    "Fresh bread and warm soup were waiting on the table.",
    "Why did nobody mention that the meeting was cancelled?",
    "The museum keeps its oldest paintings in a dark room.",
    "Her brother fixed the broken window before the storm came.",
    "They walked along the beach and talked about the summer.",
    "The garden behind the school is full of yellow flowers.",
    "I forgot my umbrella, so I waited under the roof.",
    "Three young birds sat quietly on the wire above the street.",
    "The teacher wrote a long sentence on the white board.",
    "Most people in the village know each other by name.",
    "Is there enough milk left for another cup of coffee?",
)
MOST = 40  # sentences
SURE = 1.96
WORSE = 0.1  # more wrong words than this, as a share, are too many even if they may be chance
BROKE_OFF = 30.0  # letters a second; faster than anyone speaks, so the sentence must have ended early


@dataclass(frozen=True)
class WordErrors:
    """Means over the sentences: the shares of words that are wrong, or that were not heard."""

    cloned: float
    tuned: float
    interval: float  # half of the 95 % interval of their difference

    @property
    def worse(self) -> bool:
        """Whether the tuned voice has more errors, by more than chance or by many."""
        more = self.tuned - self.cloned
        return more > min(self.interval, WORSE)

    @property
    def better(self) -> bool:
        """Whether it has fewer errors, by more than chance."""
        return self.cloned - self.tuned > self.interval


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
    errors: WordErrors | None = None  # None: there was no recogniser
    broke_off: int = 0  # sentences of the tuned voice that ended too early or not at all, beyond those of the clone
    missed: WordErrors | None = None  # words that the model did not hear; None: the sentences have no words
    errs: float = 0.0  # by which the encoder may be wrong whatever the number of sentences

    @property
    def gain(self) -> float:
        return self.tuned - self.cloned

    @property
    def won(self) -> bool:
        """Whether it is more like the person and has kept its words, or as like the person with better words; and no
        more sentences break off."""
        if self.words_lost or self.broke_off > 0:
            return False
        sure = max(self.interval, self.errs)
        found = self.errors or self.missed
        return self.gain > sure or (self.gain >= -sure and found is not None and found.better)

    @property
    def words_lost(self) -> bool:
        """Whether the tuned voice has lost words, as the recogniser or, without one, the model finds."""
        found = self.errors or self.missed
        return found is not None and found.worse

    @property
    def words(self) -> str:
        errors, missed = self.errors, self.missed
        return (
            f"likeness {self.tuned:.3f}, a plain clone {self.cloned:.3f} (gain {self.gain:+.3f} ± {self.interval:.3f}, "
            f"{self.sentences} sentences); {self.pace_tuned:.1f} letters a second, clone {self.pace_cloned:.1f}, "
            f"recordings {self.pace_recorded:.1f}"
            + (f"; {errors.tuned:.1%} word errors, clone {errors.cloned:.1%}" if errors else "")
            + (
                f"; {missed.tuned:.1%} ± {missed.interval:.1%} of the words not heard, clone {missed.cloned:.1%}"
                if missed
                else ""
            )
            + (f"; {self.broke_off} more sentences break off or do not end" if self.broke_off > 0 else "")
        )


@dataclass(frozen=True, eq=False)
class Sample:
    sound: np.ndarray
    likeness: float
    pace: float  # NaN: it could not be spoken
    wer: float | None = None
    missed: float | None = None  # the share of its words that the model does not hear in it


Share = Callable[[str, np.ndarray], float | None]
"""The share of the words of a text that are not in its sound, as a judge finds; None: it cannot tell."""


def spoken(
    tts: TTS, voice: Voice | str, cloner: Cloner, texts: Sequence[str], person: np.ndarray, look: Callable[[int], None],
    word_errors: Share, missed: Share,
) -> list[Sample]:  # fmt: skip
    """The sentences in a voice, how like the person they are, and how many words are wrong or not heard."""
    found = []
    for number, text in enumerate(texts):
        look(number)
        try:
            clip = tts.speak(text, voice=voice, seed=number)
        except GuardError:  # in every try it broke off, or talked without end
            silence = np.zeros(tts.sample_rate, np.float32)
            found.append(Sample(silence, 0.0, math.nan, word_errors(text, silence), missed(text, silence)))
            continue
        vector = cloner.embedding(clip.samples)
        found.append(Sample(clip.samples, cosine(vector, person), pace_of(text, clip.seconds),
                            word_errors(text, clip.samples), missed(text, clip.samples)))  # fmt: skip
    return found


def compare(cloned: Sequence[Sample], tuned: Sequence[Sample], pace: float, errs: float = 0.0) -> Compared:
    """`pace`: of the recordings. `errs`: by which the encoder may be wrong."""

    def values(samples: Sequence[Sample], name: str) -> np.ndarray:
        return np.array([getattr(sample, name) for sample in samples])

    def mean(samples: Sequence[Sample], name: str) -> float:
        found = values(samples, name)
        return float(np.nanmean(found)) if np.isfinite(found).any() else 0.0

    def interval(name: str) -> float:
        changes = values(tuned, name) - values(cloned, name)
        return SURE * float(changes.std(ddof=1)) / math.sqrt(len(changes)) if len(changes) > 1 else math.inf

    def shares(name: str) -> WordErrors | None:
        if any(getattr(sample, name) is None for sample in (*cloned, *tuned)):
            return None
        return WordErrors(mean(cloned, name), mean(tuned, name), interval(name))

    return Compared(
        len(tuned), mean(cloned, "likeness"), mean(tuned, "likeness"), interval("likeness"),
        mean(cloned, "pace"), mean(tuned, "pace"), pace, shares("wer"),
        broken(tuned) - broken(cloned), shares("missed"), errs,
    )  # fmt: skip


def broken(samples: Sequence[Sample]) -> int:
    """How many sentences ended too early, or could not be spoken."""
    return sum(sample.pace > BROKE_OFF or math.isnan(sample.pace) for sample in samples)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / max(1e-9, float(np.linalg.norm(one) * np.linalg.norm(other))))


def pace_of(text: str, seconds: float) -> float:
    """Letters a second."""
    return sum(c.isalnum() for c in text) / max(seconds, 0.1)
