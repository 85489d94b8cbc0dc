"""Speech to learn from: shards that the teacher has written to the work folder, and the pool that keeps their sound.

The teacher speaks in a process of its own (`speak_stage`) and may go on during training. Each training process reads
every shard once, in the order in which they appear.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor

from omnitts_cli.training.teacher import FACTS, HALF, PHONES_PER_FRAME, SAMPLE_RATE, Facts, median_pitch
from omnitts_cli.training.teacher import SAMPLES_PER_FRAME as FRAME

UNNAMED = -1  # the voice number of a speaker without a name
WORDLESS = -1  # the text number of a recording whose words are not known; the language side does not learn from it
FOLDER = "shards"
PATIENCE = 0.2  # seconds between two checks for a new shard


@dataclass(frozen=True)
class TeacherUtterance:
    text: int  # its index among the texts, or WORDLESS
    voice: int  # its index among the recipe's voices, or UNNAMED
    sound: np.ndarray  # int16, a whole number of frames
    phones: np.ndarray  # [T, 2] uint8
    facts: Facts
    speaker: int = 0  # number of an unnamed speaker, whose two utterances are neighbours


def write_shard(path: Path, said: list[TeacherUtterance]) -> None:
    """Writes one file, which appears complete."""
    numbers = [(u.text, u.voice, len(u.phones), u.speaker) for u in said]
    facts = [
        (u.facts.woman, u.facts.british, u.facts.pitch, u.facts.tempo, u.facts.tract, *u.facts.style) for u in said
    ]
    shard = {
        "sound": np.concatenate([u.sound for u in said]),
        "phones": np.concatenate([u.phones for u in said]),
        "numbers": np.array(numbers, np.int64),
        "facts": np.array(facts, np.float32),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(shard, path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)


def read_shard(path: Path, later: int = 0) -> Iterator[TeacherUtterance]:
    """The utterances of a shard, each delayed by `later` samples (less than a frame) without becoming longer."""
    shard, at = load_file(path), 0
    for (text, voice, frames, speaker), facts in zip(shard["numbers"].tolist(), shard["facts"].tolist(), strict=True):
        sound = shard["sound"][at * FRAME : (at + frames) * FRAME]
        woman, british, pitch, tempo, tract, *style = facts
        known = Facts(woman, british, pitch, tempo, tuple(style), tract)
        phones = shard["phones"][at : at + frames]
        at += frames
        if later:
            sound, phones = _later(sound, later), _later(phones.reshape(-1), round(later / HALF)).reshape(-1, 2)
        yield TeacherUtterance(text, voice, sound, phones, known, speaker)


def _later(values: np.ndarray, count: int) -> np.ndarray:
    """Delays by `count` zeros, which mean silence. The values that no longer fit are silence too."""
    return np.concatenate([np.zeros_like(values[:count]), values[: len(values) - count]])


class ShardReader:
    """Reads the teacher's shards as they appear; each member of a team reads shards of its own."""

    def __init__(self, folder: Path, member: int = 0, members: int = 1) -> None:
        self._folder, self._member, self._members = folder, member, members
        self._read: set[tuple[str, int]] = set()
        self._parts, self._spared = 1, set[str]()
        self._waiting: list[TeacherUtterance] = []
        self._reader = ThreadPoolExecutor(1, "shards")
        self._reading: Future[list[TeacherUtterance]] | None = None

    def read(self, at_least: int = 0, at_most: int = 2048, at_once: bool = True) -> list[TeacherUtterance]:
        """New utterances, at most `at_most`; waits until there are `at_least`.

        Without `at_once`, a shard is read in the background and returned by a later call, so that training goes on.
        """
        reported = False
        while True:
            if len(self._waiting) < max(1, at_least):
                self._read_next(at_once)
            if len(self._waiting) >= at_least:
                found, self._waiting = self._waiting[:at_most], self._waiting[at_most:]
                return found
            if not reported and self._reading is None:
                sys.stderr.write(f"waiting for more speech in {self._folder}\n")
                reported = True
            time.sleep(PATIENCE)

    def copy_what_follows(self, parts: int) -> None:
        """From now on, when there is no new shard, read old ones again, delayed by 1/`parts` of a frame, then by
        2/`parts` and so on, so that frames begin elsewhere. Shards read before this call are not repeated."""
        self._parts, self._spared = parts, {name for name, _ in self._read}

    def _read_next(self, at_once: bool) -> None:
        """Start reading the next shard, if there is one, and take over what has been read."""
        if self._reading is None and (found := self._unread()):
            path, part = found
            self._read.add((path.name, part))
            later = FRAME * part // self._parts
            self._reading = self._reader.submit(lambda: list(read_shard(path, later)))
        if self._reading is not None and (at_once or self._reading.done()):
            self._waiting += self._reading.result()
            self._reading = None

    def _unread(self) -> tuple[Path, int] | None:
        """The next shard to read and its delay in parts of a frame. Names end in a number, which says the member that
        reads it."""
        there = sorted(self._folder.glob("*.safetensors"), key=lambda p: p.stem.rsplit("-", 1)[::-1])
        mine = [path for path in there if int(path.stem.rsplit("-", 1)[1]) % self._members == self._member]
        for part in range(self._parts):
            for path in mine:
                if (path.name, part) not in self._read and not (part and path.name in self._spared):
                    return path, part
        return None


class SoundPool:
    """All sound in one tensor on the device, and the phones in it; older sound is overwritten once it is full."""

    def __init__(self, hours: float, device: torch.device) -> None:
        halves = int(hours * 3600 * SAMPLE_RATE) // FRAME * PHONES_PER_FRAME  # whole frames
        self.sound = torch.zeros(halves * HALF, dtype=torch.int16, device=device)
        self.phones = torch.zeros(halves, dtype=torch.uint8, device=device)
        self.facts = torch.zeros(halves, FACTS, dtype=torch.float16, device=device)  # about the speaker
        self.filled = torch.zeros((), dtype=torch.int64, device=device)  # a tensor: captured steps read it
        self.samples = 0  # ever added
        self._at = 0

    def add(self, utterances: list[TeacherUtterance]) -> None:
        if not utterances:
            return
        joined = torch.from_numpy(np.concatenate([u.sound for u in utterances]))[-len(self.sound) :]
        phones = torch.from_numpy(np.concatenate([u.phones.reshape(-1) for u in utterances]))[-len(self.phones) :]
        facts = np.repeat(
            np.array([u.facts.numbers() for u in utterances], np.float16), [u.phones.size for u in utterances], 0
        )
        if self._at + len(joined) > len(self.sound):
            self._at = 0
        self.sound[self._at : self._at + len(joined)] = joined.to(self.sound.device)
        half = self._at // HALF
        self.phones[half : half + len(phones)] = phones.to(self.phones.device)
        self.facts[half : half + len(phones)] = torch.from_numpy(facts)[-len(phones) :].to(self.phones.device)
        self._at += len(joined)
        self.samples += len(joined)
        self.filled.fill_(min(self.samples, len(self.sound)) if self.samples > self._at else self._at)

    @property
    def hours(self) -> float:
        return self.samples / SAMPLE_RATE / 3600

    def draw(self, batch: int, frames: int) -> tuple[Tensor, Tensor]:
        """Random stretches [batch, samples] float32 and their phones [batch, frames, 2]; fit for capture."""
        places = self._places(batch, frames * PHONES_PER_FRAME, self.filled // HALF)
        phones = self.phones[places].long().view(batch, frames, PHONES_PER_FRAME)
        return self._sound(places[:, :1] * HALF, frames), phones

    def draw_said(self, batch: int, frames: int) -> tuple[Tensor, Tensor, Tensor]:
        """As `draw`: the sound, its phones [batch, halves], and facts about the speaker [batch, halves, FACTS]."""
        places = self._places(batch, frames * PHONES_PER_FRAME, self.filled // HALF)
        return self._sound(places[:, :1] * HALF, frames), self.phones[places].long(), self.facts[places].float()

    def draw_whole(self, batch: int, frames: int) -> tuple[Tensor, Tensor]:
        """Random stretches that begin at a frame's beginning, and the indices of their frames [batch, frames]."""
        places = self._places(batch, frames, self.filled // FRAME)
        return self._sound(places[:, :1] * FRAME, frames), places

    def pitch(self, places: Tensor) -> Tensor:
        """Hz: the median of the speaker of each frame [batch, frames]."""
        return median_pitch(self.facts[places * PHONES_PER_FRAME].float())

    def stretches(self, first: Tensor, frames: int) -> Tensor:
        """Stretches [n, samples] that begin at the samples `first` [n]; silence goes before the beginning."""
        samples = first[:, None] + torch.arange(frames * FRAME, device=self.sound.device)
        inside = (samples >= 0) & (samples < len(self.sound))
        return torch.where(inside, self.sound[samples.clamp(0, len(self.sound) - 1)].float() / 32768, 0.0)

    def _places(self, batch: int, count: int, filled: Tensor) -> Tensor:
        """Runs of `count` consecutive indices below `filled`: [batch, count]."""
        device = self.sound.device
        first = (torch.rand(batch, device=device, dtype=torch.float64) * (filled - count)).long()
        return first[:, None] + torch.arange(count, device=device)

    def _sound(self, first: Tensor, frames: int) -> Tensor:
        samples = first + torch.arange(frames * FRAME, device=self.sound.device)
        return self.sound[samples].float() / 32768
