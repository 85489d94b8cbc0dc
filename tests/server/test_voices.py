"""OpenAI's names of voices on a model's own."""

import json
from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.server.problems import unknown
from omnitts_cli.server.voices import MOST_IN_MEMORY, OPENAI, Saved, alias
from omnitts_cli.speech import voice_files
from omnitts_cli.voices import Cloned
from omnitts_cli.weights.find import TINY

SPEAKERS = {"henry": "a calm man", "clara": "a Woman, friendly", "kurt": "a machine, male", "ruth": "female", "pat": ""}


@pytest.mark.parametrize(
    ("name", "voice"),
    [("nova", "ruth"), ("Coral", "clara"), ("onyx", "kurt"), ("ash", "henry"), ("alloy", "henry"), ("fable", "clara")],
)
def test_a_name_of_openai_is_a_voice_of_the_same_sex(name: str, voice: str) -> None:
    assert alias(name, SPEAKERS) == voice


def test_the_embedded_voices_say_their_sex() -> None:
    about = json.loads((TINY / "config.json").read_text())["omnitts"]["voices"]
    women = {"clara", "emily", "helen", "edith"}
    assert {alias(name, about) for name, sex in OPENAI.items() if sex == "female"} == women
    assert {alias(name, about) for name, sex in OPENAI.items() if sex == "male"} == set(about) - women


def test_without_descriptions_every_name_has_some_voice_listed_once() -> None:
    silent = {"ann": "", "ben": "at home in Chinese"}
    assert {alias(name, silent) for name in OPENAI} == {"ann", "ben"}
    assert alias("nova", {}) is None and alias("unknown", SPEAKERS) is None
    problem = unknown(404, "voice", "zed", ["henry", "clara", "henry"])
    assert problem.hint == "known: henry, clara"


def test_few_saved_voices_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_files, "folder", lambda: tmp_path)
    for number in range(40):
        voice = voice_files.SavedVoice(f"v{number}", Cloned(np.full(4, number, np.float32)), {"source": str(number)})
        voice_files.save(voice)
    saved = Saved()
    assert len(saved.names()) == 40
    for number in range(40):
        assert saved.load(f"v{number}").identity.embedding[0] == number
        assert saved.about(f"v{number}")["source"] == str(number)
    assert len(saved._voices) == MOST_IN_MEMORY < 40
    assert saved.load("v0").identity.embedding[0] == 0
