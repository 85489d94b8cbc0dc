"""The teacher: speech of Kokoro as clips with known speaker, pitch and phones.

A speaker is one of Kokoro's voices or a mixture of several; pitch and pace can be changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from omnitts_cli.devices.device import Device
from omnitts_cli.training import kokoro, pitch_rise, tract

SAMPLE_RATE = 24000
SAMPLES_PER_FRAME = 1920
PHONES_PER_FRAME = 2
HALF = SAMPLES_PER_FRAME // PHONES_PER_FRAME  # samples that one phone label stands for
SILENCE = 0
UNKNOWN = 255  # instead of a phone, in a recording whose phones are not known
PHONES = ("pau", *"AIOQTWYabdfhijklmnpstuvwzæðŋɑɒɔəɛɜɡɪɹɾʃʊʌʒʤʧθᵊᵻ", *"eoyøœɐxrβɣɲʎʝʁɥʦʣSc")
"""Sounds in Kokoro's alphabet, English ones first; everything else counts as silence."""
VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵊᵻeoyøœ")
VOICES = "voices.safetensors"
ENGLISH = "ab"  # first letters of American and British voices
LOUDNESS, PEAK = 0.08, 0.95  # of full scale: root mean square of the speech, and its highest sample
QUIET = 0.02  # of the loudest hop: less is silence at the ends
HOP = 240  # samples
BEFORE, AFTER = 1200, 2400  # samples of silence kept at the ends
SOUND = 128  # numbers of a style that stand for the sound of a voice; the others are how it speaks
LENGTHENED = "ː\u0303"
STYLE = 16  # numbers that describe the style of a speaker
FACTS = STYLE + 5
USUAL_PITCH = 150.0  # Hz


@dataclass(frozen=True)
class TeacherVoice:
    """Shares of Kokoro's voices, which add up to 1. `pitch` multiplies F0, `tract` the formants (`tract.py`); `pace`
    above 1 speaks faster. `manner`: the shares for how it speaks, where they are not those of its sound."""

    mix: tuple[tuple[str, float], ...]
    pitch: float = 1.0
    pace: float = 1.0
    tract: float = 1.0
    manner: tuple[tuple[str, float], ...] = ()

    @property
    def woman(self) -> float:
        return sum(share for name, share in self.mix if name[1] == "f")

    @property
    def british(self) -> float:
        """NaN for a speaker of another language."""
        if any(name[0] not in ENGLISH for name, _ in (*self.mix, *self.manner)):
            return float("nan")
        return sum(share for name, share in self.mix if name[0] == "b")


@dataclass(frozen=True)
class Facts:
    """Facts about the speaker of an utterance: `pitch` is the median in Hz, `tempo` in syllables a second, `tract` the
    factor of the formants. What is not known of a recording is NaN."""

    woman: float
    british: float
    pitch: float
    tempo: float
    style: tuple[float, ...]
    tract: float = 1.0

    def numbers(self) -> list[float]:
        """All facts as numbers of about unit size: [FACTS]."""
        factors = (4 * np.log(self.pitch / USUAL_PITCH), 4 * np.log(self.tempo / 4.5), 8 * np.log(self.tract))
        measured = [float(factor) for factor in factors]
        return [self.woman, self.british, *measured, *self.style]


def median_pitch(numbers: Tensor) -> Tensor:
    """Hz, from the numbers of speakers [..., FACTS]."""
    return USUAL_PITCH * (numbers[..., 2] / 4).exp()


@dataclass(frozen=True)
class TeacherSpeech:
    """`sound`: mono at 24 kHz, a whole number of frames. `phones`: the phone in each half of a frame."""

    sound: np.ndarray  # [T * 1920] int16
    phones: np.ndarray  # [T, 2] uint8, places in PHONES
    facts: Facts


class Teacher:
    """`folder`: see `teacher_files`; `locked`: see `pitch_lock`; `rise`: semitones by which a question rises, or 0."""

    def __init__(self, folder: Path, device: Device, locked: bool = False, rise: float = 0.0) -> None:
        self.device, self._locked, self._rise = device.torch_device, locked, rise
        self._model = kokoro.load(folder, device)
        self._vocabulary: dict[str, int] = json.loads((folder / kokoro.CONFIG).read_text(encoding="utf-8"))["vocab"]
        voices = load_file(folder / VOICES)
        self.names = sorted(name for name in voices if name[0] in ENGLISH)
        self._places = {name: place for place, name in enumerate((*self.names, *sorted(voices.keys() - self.names)))}
        self._tables = torch.stack([voices[name].float() for name in self._places]).to(
            self.device
        )  # [voices, 510, 256]
        self._centre, self._basis = _principal(self._tables[: len(self.names)].mean(1)[:, :SOUND])

    def speak(self, lines: list[str], voices: list[TeacherVoice]) -> list[TeacherSpeech]:
        """Speaks lines of phonemes in Kokoro's alphabet, each in its voice. Lines of similar length waste least."""
        known = [[c for c in line if c in self._vocabulary] for line in lines]
        ids = [[0, *(self._vocabulary[c] for c in line), 0] for line in known]
        styles = self._styles(voices, [len(line) for line in known])
        # what is resampled becomes faster and higher by the same factor
        steps = [tract.steps(v.tract) for v in voices]
        factor = torch.tensor(steps, device=self.device) / tract.WHOLE
        pace, pitch = (torch.tensor([getattr(v, k) for v in voices], device=self.device) for k in ("pace", "pitch"))
        # places in `ids` come after a zero
        rising = [[(first + 1, end + 1) for first, end in pitch_rise.rising(line)] for line in known]
        intonation = kokoro.Intonation(pitch / factor, rising, steps if self._locked else None, self._rise)
        done = kokoro.speak(self._model, ids, styles, pace / factor, intonation)
        lengths = (done.frames * kokoro.SAMPLES / factor).long()
        resampled = tract.resampled(done.sound, steps)
        sound, starts, counts = _trimmed(resampled, lengths, SAMPLES_PER_FRAME if self._locked else 1)
        ends = (done.durations.cumsum(1) * kokoro.SAMPLES / factor[:, None]).cpu().numpy()
        voiced = torch.where(done.pitch > 40, done.pitch, torch.nan)
        hertz = (voiced.nanmedian(1).values.nan_to_num(100.0) * factor).tolist()
        who = ((styles[:, :SOUND] - self._centre) @ self._basis).tolist()
        spoken = []
        for n, line in enumerate(known):
            phones = _labels(line, ends[n], starts[n], counts[n])
            facts = _facts(voices[n], line, who[n], hertz[n], counts[n])
            spoken.append(TeacherSpeech(sound[n, : counts[n] * SAMPLES_PER_FRAME], phones, facts))
        return spoken

    def _styles(self, voices: list[TeacherVoice], lengths: list[int]) -> Tensor:
        """Kokoro's style vectors for these voices; there is one for each length of text: [B, 256]."""
        shares = torch.zeros(2, len(voices), len(self._tables))
        for row, voice in enumerate(voices):
            for half, mix in zip(shares, (voice.mix, voice.manner or voice.mix), strict=True):
                for name, share in mix:
                    half[row, self._places[name]] = share
        rows = torch.tensor(lengths).clamp(1, self._tables.shape[1]) - 1
        halves = self._tables[:, rows.to(self.device)].split(SOUND, -1)
        mixed = (torch.einsum("bv,vbd->bd", *pair) for pair in zip(shares.to(self.device), halves, strict=True))
        return torch.cat(list(mixed), 1)


def _facts(voice: TeacherVoice, line: list[str], style: list[float], pitch: float, frames: int) -> Facts:
    seconds = max(0.1, (frames * SAMPLES_PER_FRAME - BEFORE - AFTER) / SAMPLE_RATE)
    tempo = max(1, sum(c in VOWELS for c in line)) / seconds
    return Facts(voice.woman, voice.british, pitch, tempo, tuple(style), tract.steps(voice.tract) / tract.WHOLE)


def _principal(styles: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of all voices, and their principal directions, each divided by its standard deviation."""
    centre = styles.mean(0)
    _, spread, directions = torch.linalg.svd(styles - centre, full_matrices=False)
    return centre, directions[:STYLE].T / (spread[:STYLE] / len(styles) ** 0.5)


def _trimmed(sound: Tensor, lengths: Tensor, grid: int) -> tuple[np.ndarray, list[int], list[int]]:
    """Sounds [B, n] int16, trimmed and at one loudness; the sample at which each begins, a multiple of `grid`; its
    frames. `lengths` [B]: their samples before."""
    device = sound.device
    hops = sound[:, : sound.shape[1] // HOP * HOP].unflatten(1, (-1, HOP)).square().mean(-1).sqrt()
    real = torch.arange(hops.shape[1], device=device)[None] < (lengths // HOP)[:, None]
    hops = torch.where(real, hops, 0.0)
    loud = hops > QUIET * hops.max(1, keepdim=True).values
    place = torch.arange(hops.shape[1], device=device)[None]
    first = torch.where(loud, place, hops.shape[1]).min(1).values * HOP
    last = torch.where(loud, place, 0).max(1).values * HOP + HOP
    start = (first - BEFORE).clamp(min=0) // grid * grid
    stop = torch.minimum(last + AFTER, lengths)
    counts = -(-(stop - start) // SAMPLES_PER_FRAME)
    width = int(counts.max()) * SAMPLES_PER_FRAME
    at = start[:, None] + torch.arange(width, device=device)[None]
    moved = sound.gather(1, at.clamp(max=sound.shape[1] - 1))
    moved = torch.where(at < stop[:, None], moved, 0.0)
    said = (last - first).clamp(min=HOP)
    level = (moved.square().sum(1) / said).sqrt() + 1e-6
    gain = torch.minimum(LOUDNESS / level, PEAK / (moved.abs().amax(1) + 1e-6))
    whole = (moved * gain[:, None] * 32767).round().to(torch.int16)
    return whole.cpu().numpy(), start.tolist(), counts.tolist()


def _labels(line: list[str], ends: np.ndarray, start: int, frames: int) -> np.ndarray:
    """The phone in the middle of each half frame. Stress marks and spaces belong to the next sound, marks of length and
    of nasal vowels to the previous one."""
    labels = [SILENCE] * (len(line) + 2)
    for n in range(len(line), 0, -1):
        c = line[n - 1]
        if c in "ˈˌ ":
            labels[n] = labels[n + 1]
        elif c in PHONES:
            labels[n] = PHONES.index(c)
    for n, c in enumerate(line, 1):
        if c in LENGTHENED:
            labels[n] = labels[n - 1]
    middles = start + (np.arange(frames * PHONES_PER_FRAME) + 0.5) * HALF
    at = np.searchsorted(ends[: len(labels)], middles, side="right").clip(max=len(labels) - 1)
    return np.array(labels, np.uint8)[at].reshape(-1, PHONES_PER_FRAME)
