"""New speech while training runs: teachers in their own processes, and the pool that keeps what they said.

Speech is nearly free, so an utterance is rarely heard twice: the pool is filled from the front while the
network learns from what is there already.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.training import strangers
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import PHONES_PER_FRAME, SAMPLE_RATE, SAMPLES_PER_FRAME, Teacher, TeacherVoice

PASSING = -1  # the voice number of a speaker without a name
HALF = SAMPLES_PER_FRAME // PHONES_PER_FRAME  # samples that one phone label stands for


@dataclass(frozen=True)
class Utterance:
    text: int  # its place among the texts
    voice: int  # its place among the recipe's voices, or PASSING
    sound: np.ndarray  # int16, a whole number of frames
    phones: np.ndarray  # [T, 2] uint8
    made: TeacherVoice | None = None  # a stranger; the same one says the next or the last utterance too


class Classroom:
    """`teachers` processes that speak random texts in random voices until closed."""

    def __init__(self, recipe: Recipe, texts: list[str], teachers: int, seed: int, flite: Path | None = None) -> None:
        # forked: the texts are shared, and nothing of the accelerator has been touched yet
        context = multiprocessing.get_context("fork")
        self._queue: multiprocessing.Queue = context.Queue(maxsize=16)
        self._processes = [
            context.Process(target=_teach, args=(recipe, texts, seed + n, flite, self._queue), daemon=True)
            for n in range(teachers)
        ]
        for process in self._processes:
            process.start()
        self._spoken: queue.Queue[list[Utterance]] = queue.Queue(maxsize=256)
        # a pipe holds less than one utterance, so somebody must always be reading it
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            self._spoken.put(self._queue.get())

    def heard(self, at_least: int = 0, at_most: int = 2048) -> list[Utterance]:
        """What was said since the last call, or part of it; waits until there are `at_least` utterances."""
        found: list[Utterance] = []
        while len(found) < at_most and not self._spoken.empty():
            found += self._spoken.get()
        while len(found) < at_least:
            found += self._spoken.get()
        return found

    def __enter__(self) -> Classroom:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        for process in self._processes:
            process.kill()


def _teach(recipe: Recipe, texts: list[str], seed: int, flite: Path | None, out: multiprocessing.Queue) -> None:
    os.nice(15)  # the learner comes first
    draw, teacher = random.Random(seed), Teacher(flite)
    while True:
        out.put(list(_speak(recipe, texts, draw, teacher, 4)))


def _speak(recipe: Recipe, texts: list[str], draw: random.Random, teacher: Teacher, count: int) -> Iterator[Utterance]:
    while count > 0:
        if draw.random() < recipe.teacher.varied / (2 - recipe.teacher.varied):  # strangers say two things
            stranger = strangers.passing(draw, recipe.strangers)
            for _ in range(2):
                yield _say(recipe, texts, draw, teacher, PASSING, stranger)
            count -= 2
        else:
            voice = draw.randrange(len(recipe.voices))
            yield _say(recipe, texts, draw, teacher, voice, recipe.voices[voice].made)
            count -= 1


def _say(
    recipe: Recipe, texts: list[str], draw: random.Random, teacher: Teacher, voice: int, made: TeacherVoice
) -> Utterance:
    """A random text whose sound is of a fitting length."""
    passing = voice == PASSING
    shortest = max(SAMPLES_PER_FRAME, recipe.strangers.shortest * SAMPLE_RATE * passing)
    while True:
        text = draw.randrange(len(texts))
        spoken = teacher.speak(texts[text], made)
        if shortest <= len(spoken.sound) <= recipe.teacher.longest * SAMPLE_RATE:
            sound = np.round(spoken.sound * 32767).astype(np.int16)
            return Utterance(text, voice, sound, spoken.phones, made if passing else None)


class SoundPool:
    """All sound in one tensor on the device, and the phones in it; older sound is overwritten once it is full."""

    def __init__(self, hours: float, device: torch.device) -> None:
        halves = int(hours * 3600 * SAMPLE_RATE) // HALF
        self.sound = torch.zeros(halves * HALF, dtype=torch.int16, device=device)
        self.phones = torch.zeros(halves, dtype=torch.uint8, device=device)
        self.filled = torch.zeros((), dtype=torch.int64, device=device)  # a tensor: captured steps read it
        self.samples = 0  # ever added
        self._at = 0

    def add(self, utterances: list[Utterance]) -> None:
        if not utterances:
            return
        joined = torch.from_numpy(np.concatenate([u.sound for u in utterances]))[-len(self.sound) :]
        phones = torch.from_numpy(np.concatenate([u.phones.reshape(-1) for u in utterances]))[-len(self.phones) :]
        if self._at + len(joined) > len(self.sound):
            self._at = 0
        self.sound[self._at : self._at + len(joined)] = joined.to(self.sound.device)
        half = self._at // HALF
        self.phones[half : half + len(phones)] = phones.to(self.phones.device)
        self._at += len(joined)
        self.samples += len(joined)
        self.filled.fill_(min(self.samples, len(self.sound)) if self.samples > self._at else self._at)

    @property
    def hours(self) -> float:
        return self.samples / SAMPLE_RATE / 3600

    def draw(self, batch: int, frames: int) -> tuple[Tensor, Tensor]:
        """Random stretches [batch, samples] float32 and their phones [batch, frames, 2]; fit for capture."""
        device = self.sound.device
        last = self.filled // HALF - frames * PHONES_PER_FRAME
        places = (torch.rand(batch, device=device, dtype=torch.float64) * last).long()[:, None]
        samples = places * HALF + torch.arange(frames * SAMPLES_PER_FRAME, device=device)
        halves = places + torch.arange(frames * PHONES_PER_FRAME, device=device)
        phones = self.phones[halves].long().view(batch, frames, PHONES_PER_FRAME)
        return self.sound[samples].float() / 32768, phones
