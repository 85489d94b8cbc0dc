"""A hummer in the teacher's place, so that training can be rehearsed where Kokoro's weights are not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
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
from omnitts_cli.training.speak_stage import speak
from omnitts_cli.training.speech_stage import SpeechStage
from omnitts_cli.training.teacher import (
    PHONES_PER_FRAME,
    SAMPLE_RATE,
    SAMPLES_PER_FRAME,
    STYLE,
    Facts,
    Spoken,
    TeacherVoice,
)
from omnitts_cli.training.team import Team
from omnitts_cli.training.texts import Line
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

    names = ("af_heart", "af_kore", "am_michael", "am_puck", "bf_emma", "bm_george")

    def __init__(self, folder: Path | None = None, device: CPUDevice | None = None) -> None:
        pass

    def speak(self, lines: list[str], voices: list[TeacherVoice]) -> list[Spoken]:
        return [self._say(line, voice) for line, voice in zip(lines, voices, strict=True)]

    def _say(self, line: str, voice: TeacherVoice) -> Spoken:
        letters = [ord(c) % 24 for c in line.lower() if c.isalpha()]
        time = np.arange(SAMPLES_PER_FRAME) / SAMPLE_RATE
        hum = [6000 * np.sin(2 * np.pi * 60 * (n + 2) * voice.pitch * time) for n in letters]
        phones = np.repeat(np.array(letters, np.uint8)[:, None], PHONES_PER_FRAME, 1)
        facts = Facts(voice.woman, voice.british, 150 * voice.pitch, 4.5 * voice.pace, (0.5,) * STYLE)
        return Spoken(np.concatenate(hum).astype(np.int16), phones, facts)


@pytest.fixture
def hummer(monkeypatch: pytest.MonkeyPatch) -> type[Hummer]:
    monkeypatch.setattr(__main__, "Teacher", Hummer)
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
def lines() -> list[Line]:
    """The hummer reads letters."""
    return [Line(text, text, text) for text in SENTENCES]


@pytest.fixture
def classroom(small: Recipe, lines: list[Line], tmp_path_factory: pytest.TempPathFactory) -> pool.Classroom:
    """One that holds a thousand utterances."""
    work = tmp_path_factory.mktemp("heard")
    enough = replace(small, teacher=replace(small.teacher, shard=300))
    speak(enough, Hummer(), lines, work, 0, 0.3, 30)
    return pool.Classroom(work / pool.FOLDER)


@pytest.fixture
def stage_of(tokens: Tokens) -> Callable[[Recipe], SpeechStage]:
    """A stage whose lessons are the first sentence, of the second voice, and two sentences of one stranger."""

    def build(made: Recipe) -> SpeechStage:
        torch.manual_seed(0)
        voice, stranger = made.voices[1].made, TeacherVoice((("bm_george", 1.0),), 0.9, 1.2)
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
    [spoken] = Hummer().speak([SENTENCES[text]], [voice])
    return Utterance(text, number, spoken.sound, spoken.phones, spoken.facts, 7 * (number == PASSING))


@pytest.fixture
def as_team_of_two(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a script as both members of a team; it lies in `tmp_path`, and may leave there what it found."""

    def run(script: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "member.py"
        path.write_text(script)
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(path)]
        return subprocess.run(launcher, capture_output=True, text=True, timeout=120, check=True)

    return run
