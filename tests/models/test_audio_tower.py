"""The audio tower: log-mel and tower equal the official ones for one clip, windows are independent, lengths are
right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from golden_set import thinker_case, thinker_folder
from omni_recipe import CLIPS, clip

from omnitts_cli.errors import InputError
from omnitts_cli.families.qwen3_omni.thinker import made_up_thinker_config, read_thinker_config, tower_part
from omnitts_cli.models.audio_tower import AudioTower, Sound, tokens_of
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill

ALONE = {"audio": "mid", "audio_short": "short", "audio_text": "long", "audio_beyond30": "beyond30"}


@pytest.fixture(scope="module")
def tower() -> AudioTower:
    part = tower_part(read_thinker_config(thinker_folder()))
    fill(part.module, part.names, Checkpoint.open(thinker_folder()), "cpu", torch.float32, unused=None)
    return part.module.eval().requires_grad_(False)


def sound_of(name: str) -> Sound:
    return Sound.of(clip(name).astype(np.float32) / 32768)


@pytest.mark.parametrize("case", ALONE)
def test_one_clip_equals_the_official_library(case: str, tower: AudioTower) -> None:
    golden, sound = thinker_case(case).tensors, sound_of(ALONE[case])
    assert len(sound.mel) == CLIPS[ALONE[case]] // 160
    ends = golden["mel"].numpy()
    kept = np.concatenate([sound.mel[:3], sound.mel[-3:]]) if len(ends) == 6 else sound.mel
    assert np.abs(kept - ends).max() < 1e-5
    rows = tower(torch.from_numpy(sound.mel))
    assert rows.shape[0] == sound.tokens
    assert (rows[-len(golden["tower"]) :] - golden["tower"]).abs().max() < 1e-4 * golden["tower"].abs().max()


def test_windows_of_eight_seconds_are_independent(tower: AudioTower) -> None:
    mel = torch.from_numpy(sound_of("beyond30").mel)
    whole = tower(mel)
    assert torch.allclose(whole[:104], tower(mel[:800]), atol=1e-5)
    assert torch.allclose(whole[208:312], tower(mel[1600:2400]), atol=1e-5)


@pytest.mark.parametrize(
    "columns, tokens", [(1, 1), (8, 1), (9, 2), (99, 13), (100, 13), (101, 14), (135, 18), (3100, 403), (60_000, 7800)]
)
def test_thirteen_rows_a_second(columns: int, tokens: int) -> None:
    assert tokens_of(columns) == tokens


@pytest.mark.parametrize("columns", [10, 31, 99, 100, 101, 199, 800, 801])
def test_the_tower_makes_as_many_rows_as_promised(columns: int, tower: AudioTower) -> None:
    mel = torch.randn(columns, 128, generator=torch.Generator().manual_seed(columns))
    assert tower(mel).shape == (tokens_of(columns), 64)


def test_silence_and_the_shortest_clip() -> None:
    assert np.allclose(Sound.of(np.zeros(16_000, np.float32)).mel, -1.5)
    assert Sound.of(np.zeros(1600, np.float32)).tokens == 2
    with pytest.raises(InputError, match=r"lasts 0\.099 s; at least 0\.1 s is needed"):
        Sound.of(np.zeros(1584, np.float32))


def test_a_key_is_of_the_content() -> None:
    assert sound_of("mid").key == sound_of("mid").key != sound_of("even").key


def test_the_released_tower_has_the_released_size() -> None:
    part = tower_part(made_up_thinker_config(Path("random:omni-thinker")))
    assert round(sum(weight.numel() for weight in part.module.parameters()) / 1e5) == 6479  # 647.9 M
