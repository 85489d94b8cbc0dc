"""Every stage in miniature, from texts to speech."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch

from omnitts_cli.build import open_engine
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.request import Request
from omnitts_cli.training.__main__ import Rebuild
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.team import Team
from omnitts_cli.training.tokens import Tokens
from omnitts_cli.voices import Named


def curves(work: Path, stage: str, name: str) -> list[float]:
    lines = [json.loads(line) for line in (work / "curves.jsonl").read_text().splitlines()]
    return [line[name] for line in lines if line["stage"] == stage and name in line]


def test_a_miniature_learns_is_exported_and_speaks(small: Recipe, tokens: Tokens, hummer: type, tmp_path: Path) -> None:
    """The real stages, shorter and smaller; the teacher hums."""
    torch.manual_seed(0)
    sentences = ["The cat sat by the door.", "Seven small boats came home at nine or ten.", "Why not?"]
    work = tmp_path / "work"
    rebuild = Rebuild(replace(small, teacher=replace(small.teacher, hours=0.01)), work, CPUDevice(1), 1, None, Team())
    (work / "texts.txt").write_text("\n".join(sentences) + "\n")
    tokens.write(work)
    for minutes in (0.08, 0.02):  # the second call goes on from the first
        rebuild.codec(minutes)
        rebuild.speech(minutes)
    rebuild.export()
    assert curves(work, "codec", "mel")[-1] < curves(work, "codec", "mel")[0]
    assert curves(work, "speech", "first")[-1] < curves(work, "speech", "first")[0]
    assert curves(work, "speech", "resumed") == curves(work, "codec", "resumed") == [False, True]
    with open_engine(str(work / "tiny"), device="cpu", threads=1, slots=1, capture=False) as engine:
        clip = engine.clip(Request("The cat.", Named("ruth"), max_frames=5))
    assert len(clip.pcm) == 1920 * len(clip.codes) > 0
    assert abs(clip.pcm).max() > 0
