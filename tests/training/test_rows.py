"""A row made from clips is the vector that a clone of them has, and nothing else of the model changes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from training_kit import Hummer, new_model

from omnitts_cli.request import Request
from omnitts_cli.speech.load import open_engine
from omnitts_cli.training.ids import codec_ids
from omnitts_cli.training.recipe import NamedVoice, Recipe
from omnitts_cli.training.rows import TABLE, clips, name_voices
from omnitts_cli.training.teacher import TeacherVoice
from omnitts_cli.training.texts import TrainingLine
from omnitts_cli.training.tokens import TokenLists
from omnitts_cli.voices import Cloned, Named


def test_a_row_is_a_clones_vector(small: Recipe, tokens: TokenLists, lines: list[TrainingLine], tmp_path: Path) -> None:
    folder = new_model(small, tokens, tmp_path)
    before, old = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())

    walter = NamedVoice("walter", "a British man", TeacherVoice((("bm_george", 1.0),), 0.9), clips=3)
    learned = [replace(voice, clips=0) for voice in small.voices]
    renamed = replace(small, voices=(*learned[:3], walter, *learned[4:]))
    name_voices(renamed, Hummer(), lines, tokens, folder)

    after, new = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    place = codec_ids(small).first_speaker + 3
    changed = (before[TABLE] != after[TABLE]).any(1).nonzero().flatten().tolist()
    assert changed == [place]
    assert all(torch.equal(before[name], after[name]) for name in before if name != TABLE)
    assert list(new["omnitts"]["voices"]) == list(new["talker_config"]["spk_id"]) == [v.name for v in renamed.voices]
    assert new["talker_config"]["spk_id"]["walter"] == place and new["omnitts"]["voices"]["walter"] == "a British man"
    for config in (old, new):
        del config["omnitts"]["voices"], config["talker_config"]["spk_id"], config["talker_config"]["spk_is_dialect"]
    assert old == new

    engine = open_engine(str(folder), device="cpu", threads=1, slots=1, capture=False)
    vectors = [engine.model.cloner.embedding(s) for s in clips(renamed, Hummer(), lines, walter.made, 3)]
    mean = torch.from_numpy(np.mean(vectors, 0)).bfloat16()
    assert torch.allclose(after[TABLE][place].float(), mean.float(), rtol=0.01, atol=1e-4)
    said, cloned = (
        engine.clip(Request("Why not?", voice, max_frames=5, seed=2))
        for voice in (Named("walter"), Cloned(after[TABLE][place].float().numpy()))
    )
    assert np.array_equal(said.codes, cloned.codes)


def test_every_voice_says_the_same_texts_in_its_accent(small: Recipe) -> None:
    asked: list[list[str]] = []

    class Notes(Hummer):
        def speak(self, read: list[str], voices: list[TeacherVoice]) -> list:
            asked.append(read)
            return super().speak(read, voices)

    texts = [TrainingLine(f"{n}", "a" * n, "b" * n) for n in (20, 50, 60, 90)]
    found = [clips(small, Notes(), texts, TeacherVoice(((name, 1.0),)), 6) for name in ("af_heart", "bf_emma")]
    american, british = ["".join(asked[n] + asked[n + 1]) for n in (0, 2)]
    assert american == british.replace("b", "a") and set(british) == {"b"}
    assert len(asked[0]) == 4 and len(asked[1]) == 2  # so many at once
    assert {len(s) // 1920 for sounds in found for s in sounds} <= {50, 60}  # the hummer says a frame a letter


def test_a_second_run_changes_nothing(
    small: Recipe, tokens: TokenLists, lines: list[TrainingLine], tmp_path: Path
) -> None:
    class Noisy(Hummer):
        """Adds random noise, as Kokoro does."""

        def speak(self, read: list[str], voices: list[TeacherVoice]) -> list:
            said = super().speak(read, voices)
            return [replace(s, sound=s.sound + torch.randint(-99, 99, s.sound.shape).short().numpy()) for s in said]

    folder = new_model(small, tokens, tmp_path)
    noisy = replace(small, voices=tuple(replace(voice, clips=2) for voice in small.voices[:2]))
    weights = folder / "model.safetensors"
    before = weights.read_bytes()
    written = []
    for _ in range(2):
        name_voices(noisy, Noisy(), lines, tokens, folder)
        written.append(weights.read_bytes())
    assert written[0] == written[1] != before
