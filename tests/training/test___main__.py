"""Every stage in miniature, from texts to speech."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from command import Omnitts
from training_kit import Steps

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import OmniError
from omnitts_cli.request import Request
from omnitts_cli.speech.load import open_engine
from omnitts_cli.training import codec_stage, perceptual_loss, speech_stage
from omnitts_cli.training.__main__ import STAGES, Rebuild, main
from omnitts_cli.training.picture import draw
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.stage_results import exported_speech
from omnitts_cli.training.team import Team
from omnitts_cli.training.texts import TrainingLine, write
from omnitts_cli.training.tokens import TokenLists
from omnitts_cli.tuning import checkpoints
from omnitts_cli.voices import Cloned, Designed, Named


def curves(work: Path, stage: str, name: str) -> list[float]:
    lines = [json.loads(line) for line in (work / "curves.jsonl").read_text().splitlines()]
    return [line[name] for line in lines if line["stage"] == stage and name in line]


def test_a_miniature_learns_is_exported_and_speaks(
    small: Recipe, tokens: TokenLists, hummer: type, tmp_path: Path, omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real stages, shorter and smaller; the teacher hums."""
    for module in (codec_stage, perceptual_loss, speech_stage):
        monkeypatch.setattr(module, "Budget", Steps)
    torch.manual_seed(0)
    sentences = ["The cat sat by the door.", "Seven small boats came home at nine or ten.", "Why not?"]
    work = tmp_path / "work"
    made = replace(small, teacher=replace(small.teacher, kept=0.004, shard=80))
    rebuild = Rebuild(made, work, CPUDevice(1), None, Team())
    write(work / "texts.tsv", [TrainingLine(text, text, text) for text in sentences])
    tokens.write(work)
    rebuild.speak(0, 0.05, None)
    for minutes in (0.12, 0.02):  # the second call goes on from the first
        rebuild.codec(minutes)
        rebuild.polish(0.02)
        rebuild.speech(minutes)
    rebuild.export()
    assert curves(work, "codec", "mel")[-1] < curves(work, "codec", "mel")[0]
    assert curves(work, "speech", "first")[-1] < curves(work, "speech", "first")[0]
    assert curves(work, "speech", "resumed") == curves(work, "codec", "resumed") == [False, True]
    assert curves(work, "polish", "resumed") == [True, True]
    assert curves(work, "speech", "residual_tables_reset")[0] == []
    for stage in ("codec", "polish", "speech"):  # the last losses are written
        rows = [line for line in (work / "curves.jsonl").read_text().splitlines() if f'"{stage}"' in line]
        assert '"event": "end"' in rows[-1] and '"rate"' in rows[-2], stage
    engine = open_engine(str(work / "tiny"), device="cpu", threads=1, slots=1, capture=False)
    clip = engine.clip(Request("The cat.", Named("emily"), max_frames=5))
    voice = engine.model.cloner.embedding(clip.pcm)
    codes = engine.model.cloner.codes(clip.pcm)
    others = (Cloned(voice), Cloned(voice, codes, "The cat."), Designed("a deep, slow male voice"))
    spoken = [engine.clip(Request("Why not?", other, max_frames=5)) for other in others]
    for clip_or_speech in (clip, *spoken):
        assert len(clip_or_speech.pcm) == 1920 * len(clip_or_speech.codes) > 0
        assert abs(clip_or_speech.pcm).max() > 0
    by_the_command(work / "tiny", clip.pcm, omnitts)
    goes_on_from_the_model_alone(rebuild, tmp_path / "later")


def goes_on_from_the_model_alone(before: Rebuild, work: Path) -> None:
    """Where only the finished model is left, as in the package: its weights and its tokenizer are the beginning."""
    shutil.copytree(before.work / "tiny", work / "tiny")
    later = Rebuild(before.recipe, work, CPUDevice(1), None, Team())
    shutil.copy(before.work / "texts.tsv", work)
    shutil.copytree(before.work / "shards", work / "shards")
    tokens = TokenLists.read(work / "tiny")
    tokens.write(work)
    kept = checkpoints.under("speech", checkpoints.load(before.work, "speech"))
    stored = exported_speech(before.recipe, tokens, work / "tiny").state_dict()
    assert all(torch.equal(stored[name], kept[name].bfloat16().float()) for name in kept)
    later.codec(0.005)
    later.speech(0.005)
    assert curves(work, "speech", "resumed") == curves(work, "codec", "resumed") == [True]


def by_the_command(model: Path, clip: np.ndarray, omnitts: Omnitts) -> None:
    """The same folder in the hands of a user."""
    soundfile.write("clip.wav", np.tile(clip, 1 + 24000 // len(clip)), 24000)
    for words in (["clone", "--ref-audio", "clip.wav"], ["design", "-i", "a high female voice"]):
        omnitts(*words, "Why not?", "-m", str(model), "-o", "a.wav", "-d", "cpu", "--max-frames", "5").ended(0)
        assert len(soundfile.read("a.wav")[0]) > 0
        Path("a.wav").unlink()


def test_all_is_done_where_no_picture_can_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for stage in STAGES:
        monkeypatch.setattr(Rebuild, stage, lambda *_, stage=stage: done.append(stage))
    monkeypatch.setattr(Rebuild, "picture", lambda rebuild: draw(rebuild.work / "none", rebuild.work / "none.svg"))
    monkeypatch.setattr(sys, "argv", ["training", "all", "--work", str(tmp_path), "--device", "cpu"])
    with pytest.raises(OmniError):
        main()
    assert done == [stage for stage in STAGES if stage != "picture"]
    assert curves(tmp_path, "all", "ended") == done


def test_what_the_user_can_correct_is_reported_in_words(tmp_path: Path) -> None:
    picture = [sys.executable, "-m", "omnitts_cli.training", "picture", "--device", "cpu", "--work", str(tmp_path)]
    done = subprocess.run(picture, capture_output=True, text=True)
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert done.stderr.startswith(f"{tmp_path}/curves.jsonl cannot be read\n")
