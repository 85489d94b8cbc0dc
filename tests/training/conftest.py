"""A hummer in the teacher's place, so that training can be rehearsed where flite is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.training import pool, recipe
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import PHONES_PER_FRAME, SAMPLE_RATE, SAMPLES_PER_FRAME, Spoken, TeacherVoice
from omnitts_cli.training.tokens import Tokens

SENTENCES = [
    "The cat sat by the door.",
    "Seven small boats came home at night.",
    "Why not?",
    "A user is an assistant to himself, now and then.",
    "Rain fell on the old stone bridge.",
]


class Hummer:
    """One letter, one frame, one pitch."""

    def __init__(self, flite: Path | None = None) -> None:
        pass

    def speak(self, text: str, voice: TeacherVoice) -> Spoken:
        letters = [ord(c) % 24 for c in text.lower() if c.isalpha()]
        time = np.arange(SAMPLES_PER_FRAME) / SAMPLE_RATE
        hum = [0.2 * np.sin(2 * np.pi * 60 * (n + 2) * voice.shift * time) for n in letters]
        phones = np.repeat(np.array(letters, np.uint8)[:, None], PHONES_PER_FRAME, 1)
        return Spoken(np.concatenate(hum).astype(np.float32), phones)


@pytest.fixture
def hummer(monkeypatch: pytest.MonkeyPatch) -> type[Hummer]:
    monkeypatch.setattr(pool, "Teacher", Hummer)
    return Hummer


@pytest.fixture(scope="session")
def small() -> Recipe:
    return recipe.read(miniature=True)


@pytest.fixture(scope="session")
def tokens() -> Tokens:
    return Tokens.learn(SENTENCES * 3, 40)


@pytest.fixture
def classroom(hummer: type[Hummer], small: Recipe) -> Iterator[pool.Classroom]:
    with pool.Classroom(small, SENTENCES, 1, 0) as room:
        yield room
