"""How far word times are off, in sentences that no model here was trained on.

    Rscript -e 'writeLines(janeaustenr::senseandsensibility)' > book.txt      # Debian: r-cran-janeaustenr, flite
    python benchmarks/word_times.py book.txt --teacher kokoro                 # with --asr-model base: by a recogniser

There are three kinds of reference times (keys). flite prints when each of its sounds ends; which sounds belong to a
word is found by aligning the sentence with its words spoken one by one. The teacher of `tiny` knows how long it makes
each phoneme, in steps of 25 ms (`--teacher`: the folder that `python -m omnitts_cli.training teacher` writes). For
`tiny`, the teacher's times are carried over by dynamic time warping of the same sentence in the same voice, so that key
has an error of its own. The teacher counts a pause as part of the sound before it; the key ends a word where its sound
does. A sentence with an unclear key is dropped and counted. benchmarks/word_sounds.py, which trains the network, never
uses these sentences.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import soundfile
import torch
from safetensors.torch import load_file

import omnitts_cli as omnitts
from omnitts_cli.audio.resample import resample
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.speech.recognised import recognised
from omnitts_cli.speech.words import BANDS, HOP_S, RATE, Aligned, Times, spectrum, tokens
from omnitts_cli.text.american.phonemes import in_letters
from omnitts_cli.text.american.sentence import reader
from omnitts_cli.training import kokoro, recipe
from omnitts_cli.training.teacher import SAMPLE_RATE
from omnitts_cli.training.teacher import VOICES as VOICE_TABLES

FLITE = ("slt", "rms", "awb", "kal16", "kal")
VOICES = ("henry", "clara", "emily", "helen", "hugh", "finn", "edith", "arthur")
OF_A_VOICE, TRAINED = 220, 190  # sentences; those after the first 190 are never trained with
SENTENCE = re.compile(r"[A-Z][^.!?\"\n]*(?:\n[^.!?\"\n]+)*[.!?]")
PAUSE = "pau"
UNCLEAR = 0.2  # share of a sentence's sounds that differ from those of its words
SUBSTITUTION, DETOUR = 1.1, 1.2  # costs
CEPSTRA, SLOPE = 14, 1.5
STEP_S, QUIET = 0.01, 0.01  # of the loudest
Phone = tuple[str, float]  # name, end in seconds
Span = tuple[float, float]


@dataclass(frozen=True)
class Clip:
    """A sentence, its sound, and where its words are."""

    voice: str
    text: str
    sound: np.ndarray
    rate: int
    key: list[Span]


def sentences(book: Path) -> list[str]:
    """The sentences of a book that are neither short nor long, in an order that never changes."""
    found = [" ".join(one.replace("--", ", ").split()) for one in SENTENCE.findall(book.read_text("utf-8"))]
    found = [re.sub(r"[^A-Za-z,;.!?' -]+", " ", one) for one in found]
    found = [one for one in found if 25 < len(one) < 130 and "Mr" not in one]
    random.Random(1).shuffle(found)
    return found


def flite(text: str, voice: str, path: Path, stretch: float = 1.0) -> list[Phone]:
    """Speaks into a file. Returns the sounds."""
    pace = f"duration_stretch={stretch:.3f}"
    command = ["flite", "-voice", voice, "--setf", pace, "-psdur", "-t", text, "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(name, float(end)) for name, end in (one.split(":") for one in done.stdout.split())]


def stretch_of(number: int, voice: str) -> float:
    return random.Random(number * 7 + len(voice)).uniform(0.85, 1.25)


# ---- the key


@cache
def alone(word: str) -> list[str]:
    """The sounds of a word that is spoken alone."""
    with tempfile.TemporaryDirectory() as folder:
        return [name for name, _ in flite(word, "slt", Path(folder) / "word.wav") if name != PAUSE]


def key_of(text: str, phones: list[Phone]) -> list[Span] | None:
    """Where each word is in flite's sentence; None if that is unclear."""
    words = tokens(text)
    wanted, owner = [], []
    for number, word in enumerate(words):
        for part in re.findall("[A-Za-z']+", word):
            sounds = alone(part.strip("'") or part)
            wanted += sounds
            owner += [number] * len(sounds)
    starts = [0.0, *(end for _, end in phones)]
    spoken = [(name, start, end) for (name, end), start in zip(phones, starts, strict=False) if name != PAUSE]
    pairs, cost = aligned(wanted, [name for name, _, _ in spoken])
    mine: dict[int, list[int]] = {}
    for here, there in pairs:
        mine.setdefault(owner[here], []).append(there)
    if len(mine) < len(words) or cost > UNCLEAR * len(wanted):
        return None
    return [(spoken[min(mine[n])][1], spoken[max(mine[n])][2]) for n in range(len(words))]


def aligned(one: list[str], other: list[str]) -> tuple[list[tuple[int, int]], float]:
    """The pairs of the cheapest way to turn one list into the other, and its cost."""
    differ = np.array([[SUBSTITUTION * (a != b) for b in other] for a in one])
    cost = np.zeros((len(one) + 1, len(other) + 1))
    cost[:, 0], cost[0] = np.arange(len(one) + 1), np.arange(len(other) + 1)
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            cost[i, j] = min(cost[i - 1, j - 1] + differ[i - 1, j - 1], cost[i - 1, j] + 1, cost[i, j - 1] + 1)
    i, j, pairs = len(one), len(other), []
    while i and j:
        if cost[i, j] == cost[i - 1, j - 1] + differ[i - 1, j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
        else:
            j -= 1
    return pairs, float(cost[-1, -1])


# ---- the key of another recording of the same words


def shape(sound: np.ndarray, rate: int) -> np.ndarray:
    """Cepstra and their slopes, each with mean 0 and deviation 1: [T, 2 * CEPSTRA]."""
    turns = np.cos(np.pi / BANDS * (np.arange(BANDS) + 0.5)[:, None] * np.arange(CEPSTRA))
    cepstra = spectrum(resample(sound, rate, RATE)) @ turns
    cepstra = (cepstra - cepstra.mean(0)) / cepstra.std(0)
    return np.concatenate([cepstra, SLOPE * np.gradient(cepstra, axis=0)], 1)


def warp(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The frames of both along the cheapest path."""
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T
    far = np.sqrt(np.maximum(squares, 0))
    came = np.zeros(far.shape, np.int8)  # 0: a step in both, 1: in the first, 2: in the other
    came[0] = 2
    cost = np.cumsum(far[0])
    for i in range(1, len(one)):
        both = np.concatenate([[np.inf], cost[:-1]]) + far[i]
        first = cost + far[i] * DETOUR
        best = np.minimum(both, first)
        along = np.cumsum(far[i] * DETOUR)
        cost = np.minimum.accumulate(best - along) + along
        came[i] = np.where(cost < best - 1e-9, 2, np.where(both <= first, 0, 1))
    i, j = len(one) - 1, len(other) - 1
    path = [(i, j)]
    while i or j:
        step = 2 if i == 0 else 1 if j == 0 else came[i, j]
        i, j = i - (step != 2), j - (step != 1)
        path.append((i, j))
    here, there = np.array(path[::-1]).T
    return here, there


def carried(key: list[Span], source: tuple[np.ndarray, int], target: tuple[np.ndarray, int]) -> list[Span]:
    here, there = warp(shape(*source), shape(*target))
    rising = here + np.arange(len(here)) * 1e-6

    def at(seconds: float) -> float:
        return float(np.interp(seconds / HOP_S, rising, there)) * HOP_S

    return [(at(start), at(end)) for start, end in key]


# ---- the figures


def flite_clips(held: Iterable[tuple[int, str, str]], folder: Path) -> Iterable[Clip | None]:
    for number, voice, text in held:
        path = folder / "flite.wav"
        key = key_of(text, flite(text, voice, path, stretch_of(number, voice)))
        sound, rate = soundfile.read(path, dtype="float32")
        yield Clip(voice, text, sound, rate, key) if key else None


def audible(sound: np.ndarray) -> np.ndarray:
    """The times of every 10 ms in which there is sound: [n]."""
    step = round(STEP_S * SAMPLE_RATE)
    levels = np.sqrt((sound[: len(sound) // step * step].reshape(-1, step) ** 2).mean(1))
    found: np.ndarray = np.flatnonzero(levels > QUIET * levels.max()) * STEP_S
    return found


class TeacherKey:
    """The teacher's speech of a sentence in the voice that `tiny` was taught, and where its words are."""

    def __init__(self, folder: Path) -> None:
        self._model = kokoro.load(folder, CPUDevice(1))
        self._vocabulary = json.loads((folder / kokoro.CONFIG).read_text("utf-8"))["vocab"]
        self._tables = load_file(folder / VOICE_TABLES)  # [510, 256] each
        self._mixes = {voice.name: voice.made.mix for voice in recipe.read().voices}

    def clip(self, text: str, voice: str) -> Clip | None:
        line = reader().spoken(in_letters(text)).strip()
        sizes = [len(re.findall("[A-Za-z']+", word)) for word in tokens(text)]
        if sum(sizes) != len(line.split()):
            return None
        sound, spans = self._speak(line, voice)
        loud, key, at = audible(sound), [], 0
        for size in sizes:
            start, end = spans[at][0], spans[at + size - 1][1]
            inside = loud[(loud >= start) & (loud < end)]
            key.append((start, float(inside[-1]) + STEP_S if inside.size else end))
            at += size
        return Clip(voice, text, sound, SAMPLE_RATE, key)

    def _speak(self, line: str, voice: str) -> tuple[np.ndarray, list[Span]]:
        """Sound, and the span of each word of phonemes. The time of a space belongs to the next word, as in training:
        behind a pause, sound begins 45 ms before that time ends.
        """
        known = [c for c in line if c in self._vocabulary]
        ids = [[0, *(self._vocabulary[c] for c in known), 0]]
        style = sum(share * self._tables[name][len(known) - 1].float() for name, share in self._mixes[voice])
        done = kokoro.speak(self._model, ids, torch.as_tensor(style)[None], torch.ones(1), torch.ones(1))
        ends = done.durations[0].cumsum(0).numpy() * kokoro.SAMPLES / SAMPLE_RATE
        spans: list[Span] = []
        for n, phone in enumerate(known, 1):
            start, end = float(ends[n - 1]), float(ends[n])
            if n == 1 or phone == " ":
                spans.append((start, end))
            elif phone not in ",.!?;:—…":
                spans[-1] = (spans[-1][0], end)
        return done.sound[0, : int(done.frames[0]) * kokoro.SAMPLES].numpy(), spans


def teacher_clips(texts: list[str], folder: Path) -> list[Clip | None]:
    key = TeacherKey(folder)
    return [key.clip(text, VOICES[number % len(VOICES)]) for number, text in enumerate(texts)]


def tiny_clips(taught: list[Clip | None]) -> Iterable[Clip | None]:
    """The same sentences by `tiny`."""
    with omnitts.load("tiny") as tts:
        for number, clip in enumerate(taught):
            if clip is None:
                yield None
                continue
            own = tts.speak(clip.text, voice=clip.voice, seed=number)
            key = carried(clip.key, (clip.sound, clip.rate), (own.samples, own.sample_rate))
            yield Clip(clip.voice, clip.text, own.samples, own.sample_rate, key)


def report(clips: Iterable[Clip | None], times: Times) -> dict[str, object]:
    """How far starts and ends are off, in milliseconds."""
    voices: dict[str, list[float]] = {}
    starts: list[float] = []
    ends: list[float] = []
    late: list[float] = []
    worst, where, used, dropped = 0.0, "", 0, 0
    for clip in clips:
        if clip is None:
            dropped += 1
            continue
        used += 1
        for found, (start, end) in zip(times(clip.sound, clip.rate, clip.text), clip.key, strict=True):
            late.append(1000 * (found.start_s - start))
            off = abs(late[-1])
            voices.setdefault(clip.voice, []).append(off)
            starts.append(off)
            ends.append(1000 * abs(found.end_s - end))
            if off >= worst:
                worst, where = off, f"{found.text} in: {clip.text}"
    return {
        "sentences": used, "dropped": dropped, "words": len(ends), "late_ms": round(float(np.median(late))),
        "start_ms": spread(starts), "end_ms": spread(ends),
        "voices": {voice: spread(off) for voice, off in voices.items()}, "worst": where,
    }  # fmt: skip


def spread(off: list[float]) -> dict[str, int]:
    return {name: round(float(np.quantile(off, share))) for name, share in (("median", 0.5), ("p95", 0.95), ("max", 1))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("book", type=Path)
    parser.add_argument("--teacher", type=Path, help="folder of the teacher: sentences of it and of tiny")
    parser.add_argument("--sentences", type=int, default=100, help="of the teacher and of tiny")
    parser.add_argument("--flite", type=int, default=150, help="sentences of flite")
    parser.add_argument("--asr-model", help="find the words with this model of faster-whisper")
    given = parser.parse_args()
    times = recognised(given.asr_model, "en", offline=True) if given.asr_model else Aligned("en")
    known = sentences(given.book)
    held = [(number, voice, known[turn * OF_A_VOICE + number])
            for turn, voice in enumerate(FLITE) for number in range(TRAINED, OF_A_VOICE)]  # fmt: skip
    if given.teacher:
        texts = [text for _, _, text in held if ";" not in text][: given.sentences]
        taught = teacher_clips(texts, given.teacher)
        print(json.dumps({"teacher": report(taught, times), "by": times.by}))
        print(json.dumps({"tiny": report(tiny_clips(taught), times), "by": times.by}))
    if given.flite:
        with tempfile.TemporaryDirectory() as folder:
            clips = flite_clips(held[: given.flite], Path(folder))
            print(json.dumps({"flite": report(clips, times), "by": times.by}))


if __name__ == "__main__":
    main()
