"""A hummer in the teacher's place, so that training can be rehearsed where flite is not installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.training import __main__, pool, recipe
from omnitts_cli.training.lessons import Lessons
from omnitts_cli.training.pool import PASSING, Utterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.shapes import build_codec
from omnitts_cli.training.speech_stage import SpeechStage
from omnitts_cli.training.teacher import PHONES_PER_FRAME, SAMPLE_RATE, SAMPLES_PER_FRAME, Spoken, TeacherVoice
from omnitts_cli.training.team import Team
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
    for room in (pool, __main__):
        monkeypatch.setattr(room, "Teacher", Hummer)
    return Hummer


@pytest.fixture(scope="session")
def small() -> Recipe:
    return recipe.read(miniature=True)


@pytest.fixture(scope="session")
def one_length(small: Recipe) -> Recipe:
    """The miniature with examples of one length, so that two sentences lie in one table."""
    plan, strangers = replace(small.speech_training, lengths=(170,)), small.strangers
    strangers = replace(strangers, clips=(0.5,), cloned=(0.3,), described=(0.2,))
    return replace(small, speech_training=plan, strangers=strangers)


@pytest.fixture(scope="session")
def tokens() -> Tokens:
    return Tokens.learn(SENTENCES * 3, 40)


@pytest.fixture
def classroom(hummer: type[Hummer], small: Recipe) -> Iterator[pool.Classroom]:
    with pool.Classroom(small, SENTENCES, 1, 0) as room:
        yield room


@pytest.fixture
def stage_of(tokens: Tokens, hummer: type[Hummer]) -> Callable[[Recipe], SpeechStage]:
    """A stage whose lessons are the first sentence, of the second voice, and two sentences of one stranger."""

    def build(made: Recipe) -> SpeechStage:
        torch.manual_seed(0)
        voice, stranger = made.voices[1].made, TeacherVoice("awb", 0.9, 1.2)
        named, first, second = (
            _utterance(text, number, who)
            for text, number, who in ((0, 1, voice), (0, PASSING, stranger), (2, PASSING, stranger))
        )
        ids = [e.ids for e in tokens.encoder().encode_batch(SENTENCES)]
        lessons = Lessons(made, build_codec(made.codec).encoder, ids, 16, tokens)
        lessons.add([named] * 16)
        for _ in range(8):
            lessons.add([first, second])
        return SpeechStage(made, CPUDevice(1), tokens, lessons, Team())

    return build


def _utterance(text: int, number: int, voice: TeacherVoice) -> Utterance:
    spoken = Hummer().speak(SENTENCES[text], voice)
    sound = np.round(spoken.sound * 32767).astype(np.int16)
    return Utterance(text, number, sound, spoken.phones, voice if number == PASSING else None)


@pytest.fixture
def as_team_of_two(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a script as both members of a team; it lies in `tmp_path`, and may leave there what it found."""

    def run(script: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "member.py"
        path.write_text(script)
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(path)]
        return subprocess.run(launcher, capture_output=True, text=True, timeout=120, check=True)

    return run
