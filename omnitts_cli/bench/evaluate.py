"""Evaluation: the sentences to speak, and word errors by an independent recogniser."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from omnitts_cli.errors import OmniError

RATE, RECOGNISER_RATE = 24_000, 16_000  # samples a second: of what is judged, and of what the recogniser takes
Transcribe = Callable[[np.ndarray], str]
"""Mono float32 at 24 kHz -> words."""


@dataclass(frozen=True)
class HardWord:
    """A word that is easily misread. `phonemes`: how the sentence requires it, in the teacher's alphabet; / separates
    alternatives."""

    word: str
    phonemes: str
    sentence: str


def sentences() -> list[str]:
    """Harvard sentences: what evaluation speaks, and training must never have read."""
    return _lines("sentences.txt")


def harder() -> list[str]:
    """Sentences with names, terms and rare words; training must not have read them either."""
    return _lines("harder.txt")


def hard_words() -> list[HardWord]:
    """Hard words, each in a sentence; training must not have read these either."""
    return [HardWord(*line.split("|")) for line in _lines("hard_words.txt")]


def unseen() -> list[str]:
    """All sentences that training must not read."""
    return [*sentences(), *harder(), *(hard.sentence for hard in hard_words())]


def _lines(name: str) -> list[str]:
    return (resources.files(__package__) / name).read_text(encoding="utf-8").splitlines()


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z' ]", "", text.lower()).split()


def word_errors(said: Sequence[str], recognised: Sequence[str]) -> int:
    """The edit distance in words."""
    row = list(range(len(recognised) + 1))
    for i, word in enumerate(said, 1):
        last, row = row, [i]
        for j, other in enumerate(recognised, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (word != other)))
    return row[-1]


def error_rate(texts: Sequence[str], sounds: Sequence[np.ndarray], transcribe: Transcribe) -> float:
    """Word errors of all sounds over words of all texts."""
    errors = sum(word_errors(words(t), words(transcribe(s))) for t, s in zip(texts, sounds, strict=True))
    return errors / sum(len(words(text)) for text in texts)


def recogniser() -> Transcribe:
    try:
        from pocketsphinx import Decoder
    except ImportError:
        raise OmniError("the recogniser is missing", hint="pip install pocketsphinx") from None
    decoder = Decoder(samprate=RECOGNISER_RATE, loglevel="FATAL")

    def transcribe(sound: np.ndarray) -> str:
        at_rate = resample(sound, round(len(sound) * RECOGNISER_RATE / RATE))
        decoder.start_utt()
        decoder.process_raw((np.clip(at_rate, -1, 1) * 32767).astype(np.int16).tobytes(), full_utt=True)
        decoder.end_utt()
        best = decoder.hyp()
        return best.hypstr if best else ""

    return transcribe


def resample(sound: np.ndarray, length: int) -> np.ndarray:
    """Resamples by the spectrum; exact for sound that ends in silence."""
    spectrum = np.fft.rfft(sound)
    bins = length // 2 + 1
    spectrum = spectrum[:bins] if bins <= len(spectrum) else np.pad(spectrum, (0, bins - len(spectrum)))
    return np.fft.irfft(spectrum, length).astype(np.float32) * np.float32(length / len(sound))
