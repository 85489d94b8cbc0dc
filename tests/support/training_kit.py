"""A hummer in the teacher's place, so that training can be rehearsed where Kokoro's weights are not."""

import functools
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
import warm
from patience import LONG_S

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.training.codec_stage import CodecStage
from omnitts_cli.training.dataset import Dataset, text_ids
from omnitts_cli.training.export import export_codec, export_language
from omnitts_cli.training.pool import UNNAMED, ShardReader, SoundPool, TeacherUtterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.shapes import build_codec
from omnitts_cli.training.speech import TinySpeech
from omnitts_cli.training.speech_stage import SpeechStage
from omnitts_cli.training.teacher import (
    PHONES_PER_FRAME,
    SAMPLE_RATE,
    SAMPLES_PER_FRAME,
    STYLE,
    Facts,
    TeacherSpeech,
    TeacherVoice,
)
from omnitts_cli.training.team import Team
from omnitts_cli.training.texts import TrainingLine
from omnitts_cli.training.tokens import TokenLists
from omnitts_cli.tuning import checkpoints

SENTENCES = [
    "The cat sat by the door.", "Seven small boats came home at night.", "Why not?",
    "A user is an assistant to himself, now and then.", "Rain fell on the old stone bridge.",
]  # fmt: skip


class Steps:
    """A stage's budget in steps, so that a busy machine learns as much as an idle one."""

    def __init__(self, minutes: float) -> None:
        self._steps, self._taken = round(120 * minutes), -1

    @property
    def spent(self) -> float:
        self._taken += 1
        return min(1.0, self._taken / self._steps)


class Hummer:
    """One letter, one frame, one pitch."""

    names = ("af_heart", "af_kore", "am_michael", "am_puck", "bf_emma", "bm_george")

    def __init__(
        self,
        folder: Path | None = None,
        device: CPUDevice | None = None,
        locked: bool = False,
        rise: float = 0.0,
    ) -> None:
        pass

    def speak(self, lines: list[str], voices: list[TeacherVoice]) -> list[TeacherSpeech]:
        return [self._say(line, voice) for line, voice in zip(lines, voices, strict=True)]

    def _say(self, line: str, voice: TeacherVoice) -> TeacherSpeech:
        letters = [ord(c) % 24 for c in line.lower() if c.isalpha()]
        time = np.arange(SAMPLES_PER_FRAME) / SAMPLE_RATE
        hum = [6000 * np.sin(2 * np.pi * 60 * (n + 2) * voice.pitch * time) for n in letters]
        phones = np.repeat(np.array(letters, np.uint8)[:, None], PHONES_PER_FRAME, 1)
        facts = Facts(voice.woman, voice.british, 150 * voice.pitch, 4.5 * voice.pace, (0.5,) * STYLE)
        return TeacherSpeech(np.concatenate(hum).astype(np.int16), phones, facts)


@functools.cache
def learned_tokens() -> TokenLists:
    return TokenLists.learn(SENTENCES * 3, 40)


def stage_of(made: Recipe) -> SpeechStage:
    """A stage whose dataset is the first sentence, of the second voice, and two sentences of one unnamed speaker."""
    torch.manual_seed(0)
    tokens, speaker = learned_tokens(), TeacherVoice((("bm_george", 1.0),), 0.9, 1.2)
    texts = text_ids([TrainingLine(text, text, text, sounds=text) for text in SENTENCES], tokens)
    dataset = Dataset(made, build_codec(made.codec).encoder, texts, 16, tokens)
    dataset.add([utterance(0, 1, made.voices[1].made)] * 16)
    for _ in range(8):
        dataset.add([utterance(0, UNNAMED, speaker), utterance(2, UNNAMED, speaker)])
    return SpeechStage(made, CPUDevice(1), tokens, dataset, Team())


def utterance(text: int, number: int, voice: TeacherVoice) -> TeacherUtterance:
    [spoken] = Hummer().speak([SENTENCES[text]], [voice])
    return TeacherUtterance(text, number, spoken.sound, spoken.phones, spoken.facts, 7 * (number == UNNAMED))


def pool_of(shards: ShardReader, hours: float = 0.004) -> SoundPool:
    """A pool with the first utterances; torch is seeded."""
    torch.manual_seed(0)
    pool = SoundPool(hours, torch.device("cpu"))
    pool.add(shards.read(at_least=4))
    return pool


def new_model(recipe: Recipe, tokens: TokenLists, work: Path, **parts: torch.nn.Module) -> Path:
    """A model that has learned nothing, exported, with the parts that are given; its checkpoints lie in `work`."""
    torch.manual_seed(0)
    CodecStage(recipe, CPUDevice(1), SoundPool(0.001, torch.device("cpu")), Team()).save(work)
    parts = parts or {"speech": TinySpeech(recipe, tokens)}
    checkpoints.save(work, "speech", checkpoints.gather(**parts))
    export_codec(recipe, work, work / "tiny" / "speech_tokenizer")
    export_language(recipe, work, tokens, work / "tiny")
    return work / "tiny"


def two_members(folder: Path, script: str) -> None:
    """The same without torchrun, whose own processes take longer than the members."""
    path = folder / "member.py"
    path.write_text(script)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    team = {"TORCHELASTIC_RUN_ID": "two", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    members = [
        warm.Process(
            [sys.executable, str(path)], env={**os.environ, **team, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(2)
    ]
    assert [member.wait(LONG_S) for member in members] == [0, 0]


def as_team_of_two(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script as both members of a team; it lies in `folder`, and may leave there what it found."""
    path = folder / "member.py"
    path.write_text(script)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(path)]
    return subprocess.run(launcher, capture_output=True, text=True, timeout=120, check=True)
