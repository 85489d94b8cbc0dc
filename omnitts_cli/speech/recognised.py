"""Word times by a speech recogniser: Whisper's attention over the words that were spoken, for any voice and language.

The words are given, so what the recogniser would have understood does not matter: every word gets a time, and
subtitles have the words of the text. Words are then cut to where there is sound, so that pauses belong to none.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from omnitts_cli.audio.resample import resample
from omnitts_cli.errors import UsageError
from omnitts_cli.speech.hub_recogniser import PREFIX
from omnitts_cli.speech.transcribe import HEARD_AT, LONGEST_S, SIZE, Whisper
from omnitts_cli.speech.words import Aligned, tokens, with_lengths
from omnitts_cli.text.language import LANGUAGES
from omnitts_cli.text.subtitles import Word, between

LATE_S = 0.045
"""Whisper's attention reaches a word this long before it begins, measured for size base by benchmarks/word_times.py."""
STEP = HEARD_AT // 100
QUIET = 0.01  # a level below this share of the loudest 10 ms
PAUSE_S, NEAR_S = 0.1, 0.12
LETTERS = 600  # of one pass


@dataclass(frozen=True)
class Recognised:
    """Called like `word_times`. `language`: a code, or auto."""

    whisper: Whisper
    name: str
    language: str = "auto"

    @property
    def by(self) -> str:
        """What made the times, as the files of subtitles name it."""
        return f"faster-whisper {Path(self.name).name}"

    def __call__(self, sound: np.ndarray, rate: int, text: str) -> list[Word]:
        words = tokens(text)
        if not words or sound.size < rate // 10:
            return Aligned(self.language)(sound, rate, text)
        return self._found(resample(sound, rate, HEARD_AT), words)

    def _found(self, sound: np.ndarray, words: list[str]) -> list[Word]:
        """The words in sound at 16 kHz. What is too long for one pass is cut at the longest pause of its middle."""
        seconds = sound.size / HEARD_AT
        if len(words) > 1 and (seconds > LONGEST_S or sum(map(len, words)) > LETTERS):
            known = Aligned(self.language)(sound, HEARD_AT, " ".join(words))
            if len(known) == len(words):
                middle = range(max(len(words) // 4, 1), max(3 * len(words) // 4, 1) + 1)
                at = max(middle, key=lambda n: known[n].start_s - known[n - 1].end_s)
                cut = round((known[at - 1].end_s + known[at].start_s) / 2 * HEARD_AT)
                later = cut / HEARD_AT
                after = self._found(sound[cut:], words[at:])
                return [
                    *self._found(sound[:cut], words[:at]),
                    *(Word(one.start_s + later, one.end_s + later, one.text) for one in after),
                ]
        language = self.language if self.language in LANGUAGES else None
        begins = np.array(self.whisper.place(sound, with_spaces(words), language)) + LATE_S
        begins = np.clip(begins, 0.0, seconds)
        quiet = pauses(sound)
        for number in range(len(words)):
            begins[number] = behind_a_pause(float(begins[number]), quiet)
        begins = np.maximum.accumulate(begins)
        found = [
            Word(float(begin), end_before_a_pause(float(begin), float(end), quiet), word)
            for begin, end, word in zip(begins[:-1], begins[1:], words, strict=True)
        ]
        return with_lengths(found, seconds)


def with_spaces(words: list[str]) -> list[str]:
    """Words as they follow each other in a text."""
    first = f"{between(words[0], words[0])}{words[0]}"
    return [first, *(between(before, word) + word for before, word in pairwise(words))]


def pauses(sound: np.ndarray) -> list[tuple[float, float]]:
    """Where sound at 16 kHz is quiet for a while, and its silent ends."""
    steps = sound[: sound.size // STEP * STEP].reshape(-1, STEP)
    level = np.sqrt((steps.astype(np.float64) ** 2).mean(1))
    quiet = np.concatenate([[False], level <= QUIET * level.max(initial=1e-9), [False]])
    edges = np.flatnonzero(np.diff(quiet.astype(np.int8))).reshape(-1, 2)
    return [
        (first * STEP / HEARD_AT, last * STEP / HEARD_AT)
        for first, last in edges.tolist()
        if (last - first) * STEP >= PAUSE_S * HEARD_AT or first == 0 or last == len(level)
    ]


def behind_a_pause(begin: float, quiet: list[tuple[float, float]]) -> float:
    """A word begins at the end of a pause that it begins in, or near."""
    near = [(start, end) for start, end in quiet if start - NEAR_S <= begin <= end + NEAR_S]
    return max(near, key=lambda pause: pause[1] - pause[0])[1] if near else begin


def end_before_a_pause(begin: float, end: float, quiet: list[tuple[float, float]]) -> float:
    """A word ends where a pause begins that lasts until the next word."""
    return next((start for start, last in quiet if begin < start < end <= last + STEP / HEARD_AT), end)


def recognised(model: str | None, language: str, *, offline: bool) -> Recognised:
    """Opens the recogniser: a size such as base, or a folder."""
    if model is not None and model.startswith(PREFIX):
        raise UsageError(
            f"--asr-model {model} does not tell the times of words", hint="--asr-model base   or leave it out"
        )
    try:
        whisper = Whisper(model, offline=offline)
    except ImportError:
        raise UsageError(
            "--asr-model needs faster-whisper, which is not installed",
            hint="pip install faster-whisper   or leave --asr-model out: --subs words works without it",
        ) from None
    return Recognised(whisper, model or SIZE, language)
