"""Word times: where each word of a known text is, by aligning its spelling with the sound.

A small network (sounds.npz) says for every 10 ms which of eight classes of sound it is. The words say in which order
classes come (letters.py), and the best path through both gives the times. It knows no voice, needs no recogniser, and
works for languages that are written with letters. `benchmarks/word_sounds.py` trains it, `benchmarks/word_times.py`
measures it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np

from omnitts_cli.audio.resample import resample
from omnitts_cli.speech.letters import CLASSES, SILENCE, Sound, sounds_of
from omnitts_cli.text.pattern import LatePattern
from omnitts_cli.text.spell_out import spell_out
from omnitts_cli.text.subtitles import Sentence, Word

RATE, HOP, WINDOW, FFT, BANDS = 16_000, 160, 400, 512, 40
HOP_S = HOP / RATE
CONTEXT = 7  # frames on each side
LOWEST_HZ, HIGHEST_HZ = 60.0, 7600.0
QUIET_SHARE = 0.3  # frames that do not count for the mean
TEMPER = 0.6  # weight of the class frequencies
SKIPS = 4  # states that may be left out in a row
PAUSE_COST, SKIP_COST = 3.0, 1.5
MOST_CELLS = 30_000_000  # frames times states, 5 bytes each: a sentence of about two minutes
WEIGHTS = Path(__file__).with_name("sounds.npz")
TOKEN = LatePattern(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff](?:[\W_]+(?=\S))?|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)
PAUSE = Sound((SILENCE,), absent=True)
Spell = Callable[[str], str]
SHORTEST_S = 0.02  # of a word, if there is time for it


# ---- which sounds there are


@cache
def weights() -> dict[str, np.ndarray]:
    """Returns the network of sounds.npz, by the names of its arrays."""
    with np.load(WEIGHTS) as stored:
        return {name: stored[name].astype(np.float32) for name in stored.files}


@cache
def bank() -> np.ndarray:
    """The mel filters: [BANDS, FFT // 2 + 1]."""
    low, high = (2595 * np.log10(1 + hz / 700) for hz in (LOWEST_HZ, HIGHEST_HZ))
    points = 700 * (10 ** (np.linspace(low, high, BANDS + 2) / 2595) - 1)
    hertz = np.fft.rfftfreq(FFT, 1 / RATE)
    up = (hertz[None] - points[:-2, None]) / (points[1:-1] - points[:-2])[:, None]
    down = (points[2:, None] - hertz[None]) / (points[2:] - points[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)).astype(np.float32)


def spectrum(sound: np.ndarray) -> np.ndarray:
    """Log-mel frames of sound at RATE, without the mean of the louder frames: [T, BANDS]."""
    padded = np.concatenate([np.zeros(WINDOW // 2, np.float32), sound, np.zeros(WINDOW, np.float32)])
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW).astype(np.float32), FFT)) ** 2
    mel = np.log(power @ bank().T + 1e-7).astype(np.float32)
    level = mel.mean(1)
    loud = level >= np.sort(level)[int(len(level) * QUIET_SHARE)]
    found: np.ndarray = mel - mel[loud].mean(0)
    return found


def class_scores(sound: np.ndarray) -> np.ndarray:
    """The score of each class in each frame: [T, classes]."""
    mel, known = spectrum(sound), weights()
    places = np.clip(np.arange(len(mel))[:, None] + np.arange(-CONTEXT, CONTEXT + 1), 0, len(mel) - 1)
    x = mel[places].reshape(len(mel), -1)
    x = np.maximum(x @ known["p0"].T + known["p1"], 0)
    x = np.maximum(x @ known["p2"].T + known["p3"], 0)
    x = x @ known["p4"].T + known["p5"]
    x -= x.max(1, keepdims=True)
    scores: np.ndarray = x - np.log(np.exp(x).sum(1, keepdims=True)) - TEMPER * np.log(known["prior"])
    return scores


# ---- where it is


@dataclass(frozen=True)
class States:
    """The sounds of all words in a row, with pauses that may be absent between them."""

    allowed: np.ndarray  # [S, classes] bool
    absent: np.ndarray  # [S] bool
    word: np.ndarray  # [S], -1 for a pause


def states_of(words: Sequence[Sequence[Sound]]) -> States:
    """Returns the sounds of the words in one row, with a pause around each word."""
    row, owner = [PAUSE], [-1]
    for number, sounds in enumerate(words):
        row += [*sounds, PAUSE]
        owner += [*[number] * len(sounds), -1]
    allowed = np.zeros((len(row), len(CLASSES)), bool)
    for at, sound in enumerate(row):
        allowed[at, list(sound.classes)] = True
    return States(allowed, np.array([sound.absent for sound in row]), np.array(owner))


def path(scores: np.ndarray, states: States) -> np.ndarray:
    """The best state of each frame: [T]. States come in order; those that may be absent can be left out."""
    count, steps = len(states.word), len(scores)
    emit = np.full((steps, count), -np.inf, scores.dtype)  # [T, S]
    for number, score in enumerate(scores.T):
        np.maximum(emit, score[:, None], out=emit, where=states.allowed[:, number])
    enter = np.where(states.word < 0, -PAUSE_COST, 0.0)  # of a state
    leave_out = np.where(states.absent, np.where(states.word < 0, 0.0, -SKIP_COST), -np.inf)
    jumps = np.full((SKIPS + 2, count), -np.inf)  # the cost of a jump from 0 to SKIPS + 1 states earlier
    jumps[0] = 0.0
    for jump in range(1, min(SKIPS + 2, count)):
        between = [leave_out[jump - step : count - step] for step in range(1, jump)]
        jumps[jump, jump:] = enter[jump:] + sum(between)
    best = np.full(count + SKIPS + 1, -np.inf)  # with states in front that are never reached
    now = best[SKIPS + 1 :]
    cost = 0.0
    for first in range(min(count, SKIPS + 1)):  # the first sounds may be absent too
        now[first] = cost + enter[first] + emit[0, first]
        cost += leave_out[first]
    earlier = np.lib.stride_tricks.sliding_window_view(best, count)[::-1]  # [jump, S]
    came = np.zeros((steps, count), np.int8)
    for step in range(1, steps):
        options = earlier + jumps
        came[step] = options.argmax(0)
        now[:] = options.max(0) + emit[step]
    last = final(now, states, leave_out)
    found = np.empty(steps, np.int64)
    for step in range(steps - 1, -1, -1):
        found[step] = last
        last -= int(came[step, last])
    return found


def final(best: np.ndarray, states: States, leave_out: np.ndarray) -> int:
    """The state of the last frame: the last one, or an earlier one if those after it may be absent."""
    at, cost, found, most = len(best) - 1, 0.0, len(best) - 1, -np.inf
    while at >= 0:
        if best[at] + cost > most:
            found, most = at, best[at] + cost
        cost += leave_out[at]
        at -= 1
    return found


def tokens(text: str) -> list[str]:
    """The words of a text as they are written; a Chinese or Japanese character is one, with its marks."""
    found: list[str] = []
    for token in TOKEN.findall(text):
        if found and not any(character.isalnum() for character in token):
            found[-1] += token if len(token) == 1 and ord(token) > 0x2FFF else f" {token}"
        else:
            found.append(token)
    return found


def word_times(sound: np.ndarray, rate: int, text: str, spell: Spell | None = None) -> list[Word]:
    """Where each word of `text` is in `sound`, in seconds. Every word gets a time, in order, and none overlap.

    `spell` writes out numbers and signs.
    """
    words = tokens(text)
    if not words:
        return []
    seconds = sound.size / rate
    spoken = [[sound for part in (spell(word) if spell else word).split() for sound in sounds_of(part)] or [PAUSE]
              for word in words]  # fmt: skip
    states = states_of(spoken)
    if sound.size < WINDOW or sum(not absent for absent in states.absent) * HOP_S > seconds:
        return evenly(words, seconds)  # less sound than the words need
    if seconds / HOP_S * len(states.absent) > MOST_CELLS:
        return evenly(words, seconds)
    found = path(class_scores(resample(sound, rate, RATE)), states)
    owner = states.word[found]
    times, before = [], 0.0
    for number, word in enumerate(words):
        frames = np.flatnonzero(owner == number)
        start = frames[0] * HOP_S if frames.size else before
        end = (frames[-1] + 1) * HOP_S if frames.size else start
        start = min(max(start, before), seconds)
        end = min(max(end, start), seconds)
        times.append(Word(start, end, word))
        before = end
    return with_lengths(times, seconds)


def evenly(words: Sequence[str], seconds: float, start_s: float = 0.0) -> list[Word]:
    """Each word for a time in proportion to its length."""
    ends = start_s + np.cumsum([len(word) for word in words]) / max(sum(len(word) for word in words), 1) * seconds
    return [
        Word(float(start), float(end), word)
        for start, end, word in zip([start_s, *ends[:-1]], ends, words, strict=True)
    ]


def with_lengths(words: list[Word], seconds: float) -> list[Word]:
    """Words that were found nowhere share the time of the word after them, or before them at the end; if there is
    none, all words share the sound.
    """
    if words and all(word.end_s - word.start_s < SHORTEST_S for word in words):
        return evenly([word.text for word in words], seconds)
    found: list[Word] = []
    lost = 0  # at the end of `found`
    for word in words:
        found.append(word)
        if word.end_s - word.start_s < SHORTEST_S:
            lost += 1
        elif lost:
            shared(found, lost + 1)
            lost = 0
    if lost:
        shared(found, lost + 1)
    return found


def shared(words: list[Word], count: int) -> None:
    """The last words share their time by their lengths."""
    last = words[-count:]
    start = last[0].start_s
    words[-count:] = evenly([one.text for one in last], last[-1].end_s - start, start)


class Times(Protocol):
    """Finds words in sound."""

    @property
    def by(self) -> str:
        """What it is, for files of subtitles."""

    def __call__(self, sound: np.ndarray, rate: int, text: str) -> list[Word]:
        """The words of a text in its sound."""


@dataclass(frozen=True)
class Aligned:
    """`word_times` for a language: a code, or auto."""

    language: str = "auto"
    by = "alignment"

    def __call__(self, sound: np.ndarray, rate: int, text: str) -> list[Word]:
        return word_times(sound, rate, text, speller(self.language))


class Timer:
    """The words of sentences whose sound arrives in order."""

    def __init__(self, rate: int, times: Times) -> None:
        self.sentences: list[Sentence] = []
        self._rate, self._times = rate, times
        self._sound: list[np.ndarray] = []
        self._begin = self._end = 0  # of the sound that is held, in samples

    def add(self, samples: np.ndarray, sentence: Sentence | None) -> None:
        """More sound; `sentence` if it ends one."""
        if samples.size:
            self._sound.append(samples)
            self._end += samples.size
        if sentence is None:
            return
        held = np.concatenate([np.zeros(0, np.float32), *self._sound])
        start, end = (round(at * self._rate) for at in (sentence.start_s, sentence.end_s))
        self.sentences.append(
            with_words(sentence, held[max(start - self._begin, 0) : end - self._begin], self._rate, self._times)
        )
        self._sound, self._begin = [], self._end


def with_words(sentence: Sentence, sound: np.ndarray, rate: int, times: Times) -> Sentence:
    """The sentence with the times of its words."""
    words = times(sound, rate, sentence.text)
    return replace(
        sentence,
        words=tuple(Word(one.start_s + sentence.start_s, one.end_s + sentence.start_s, one.text) for one in words),
    )


@cache
def speller(language: str) -> Spell | None:
    """Writes out the numbers of a word, in languages where we can. `language`: a code, or auto."""
    if language not in ("en", "auto"):
        return None

    return cache(spell_out)
