"""Codecs are loaded from checkpoints, exported folders and the shipped model."""

from pathlib import Path

import pytest
import torch
from training_kit import pool_of

import omnitts_cli
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import ModelError
from omnitts_cli.training import recipe
from omnitts_cli.training.codec_stage import CodecStage, train_codec
from omnitts_cli.training.export import export_codec
from omnitts_cli.training.polish_stage import PolishStage
from omnitts_cli.training.pool import ShardReader
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.stage_results import exported_codec, kept_codes, residual_books, trained_codec
from omnitts_cli.training.team import Team

SHIPPED = Path(omnitts_cli.__file__).parent / "embedded"


def test_the_shipped_codec_repeats_a_sound() -> None:
    """A buzz of eight frames keeps its length, its loudness and its silence."""
    made = recipe.read()
    codec = trained_codec(made, SHIPPED)
    time = torch.arange(8 * 1920) / 24000
    buzz = sum(torch.sin(2 * torch.pi * 120 * n * time) / n for n in range(1, 12)) * 0.05
    sound = torch.cat([torch.zeros(4 * 1920), buzz])[None]
    with torch.no_grad():
        codes = codec.encoder(sound)
        repeated = codec.decoder(codes)
    assert codes.shape == (1, 12, made.codec.groups) and int(codes.max()) < made.codec.codes
    assert repeated.shape == sound.shape
    before, during = (part.square().mean().sqrt() for part in (repeated[0, : 3 * 1920], repeated[0, 6 * 1920 :]))
    assert during > 0.02 and during > 10 * before


def test_without_a_codec_the_error_names_the_next_step(small: Recipe, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no codec"):
        trained_codec(small, tmp_path)


def test_training_a_codec_changes_its_codebooks(small: Recipe, shards: ShardReader, tmp_path: Path) -> None:
    """An export and a polish do not."""
    pool = pool_of(shards, 0.01)
    stage = CodecStage(small, CPUDevice(1), pool, Team())
    stage.start_books()
    found = []
    for _ in range(2):
        stage.learn(bypass=False)
        stage.update()
        stage.save(tmp_path)
        found.append(residual_books(trained_codec(small, tmp_path)))
    assert not torch.equal(*found)

    export_codec(small, tmp_path, tmp_path / "codec")
    assert torch.equal(residual_books(exported_codec(small, tmp_path / "codec")), found[-1])
    train_codec(PolishStage, small, CPUDevice(1), shards, pool, tmp_path, 0.01, Team())
    assert torch.equal(residual_books(trained_codec(small, tmp_path)), found[-1])


def test_codes_are_kept_where_a_book_has_moved_a_little() -> None:
    torch.manual_seed(0)
    before = torch.randn(3, 16, 4)
    now = before + 0.05 * torch.randn_like(before)
    now[1] = now[1].roll(1, 0)  # each code means another entry
    now[2] += 5.0  # the centre of the latents has moved
    assert kept_codes(before.half(), now.half()).tolist() == [1.0, 0.0, 1.0]
    assert kept_codes(before, torch.randn(2, 8, 4)).tolist() == [0.0, 0.0]
