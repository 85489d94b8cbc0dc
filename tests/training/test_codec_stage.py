"""The codec stage goes on from a checkpoint, or from an exported codec without its critics."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.training.codec_stage import CodecStage, train_codec
from omnitts_cli.training.export import export_codec
from omnitts_cli.training.pool import Classroom, SoundPool, Utterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import PHONES_PER_FRAME, SAMPLES_PER_FRAME


@pytest.mark.parametrize("left", ["checkpoint", "exported", "nothing"])
def test_it_goes_on_from_what_it_finds(small: Recipe, classroom: Classroom, tmp_path: Path, left: str) -> None:
    torch.manual_seed(0)
    pool = SoundPool(0.01, torch.device("cpu"))
    if left != "nothing":
        CodecStage(small, CPUDevice(1), pool).save(tmp_path)
    if left == "exported":
        export_codec(small, tmp_path, tmp_path / "tiny" / "speech_tokenizer")
        (tmp_path / "codec.0.safetensors").unlink()
    train_codec(small, CPUDevice(1), classroom, pool, tmp_path, 0.005)
    start = json.loads((tmp_path / "curves.jsonl").read_text().splitlines()[0])
    assert start["event"] == "start" and start["resumed"] == (left != "nothing")
    assert (tmp_path / "codec.0.safetensors").exists()


def test_a_step_moves_what_should_move(small: Recipe, classroom: Classroom) -> None:
    torch.manual_seed(0)
    pool = SoundPool(0.01, torch.device("cpu"))
    pool.add(classroom.heard(at_least=4))
    stage = CodecStage(small, CPUDevice(1), pool)
    stage.start_books()
    learned = (
        stage.encoder.opening.conv.weight,
        stage.encoder.quantiser.residual.into.weight,
        stage.decoder.quantiser.leading.out.weight,
        stage.decoder.closing.conv.weight,
        stage.critics.each[0].last.weight,
    )
    before, books = [weight.detach().clone() for weight in learned], stage.quantiser.residual.books.clone()
    stage.step(bypass=False, critics=True)
    assert not any(torch.equal(old, new) for old, new in zip(before, learned, strict=True))
    assert not torch.equal(books, stage.quantiser.residual.books)
    assert bool(stage.losses.isfinite().all()) and bool((stage.losses[:5] > 0).all())


def test_frozen_codes_stay_while_the_sound_changes(small: Recipe, classroom: Classroom) -> None:
    torch.manual_seed(0)
    small = replace(small, codec_training=replace(small.codec_training, frozen=True))
    pool = SoundPool(0.01, torch.device("cpu"))
    pool.add(classroom.heard(at_least=4))
    stage = CodecStage(small, CPUDevice(1), pool)
    stage.start_books()
    parts = {**stage.encoder.state_dict(), **stage.quantiser.state_dict()}
    before = {name: t.clone() for name, t in parts.items()}
    sound = stage.decoder.closing.conv.weight.detach().clone()
    stage.step(bypass=False, critics=True)
    assert all(torch.equal(before[name], t) for name, t in parts.items())
    assert not torch.equal(sound, stage.decoder.closing.conv.weight)


def test_drawn_sound_comes_with_its_own_phones() -> None:
    pool = SoundPool(0.001, torch.device("cpu"))
    for length, phone in ((3, 7), (5, 9)):
        # every half frame sounds like its number, so that the two can be told apart
        sound = np.full(length * SAMPLES_PER_FRAME, phone * 100, np.int16)
        pool.add([Utterance(0, 0, sound, np.full((length, PHONES_PER_FRAME), phone, np.uint8))])
    sound, phones = pool.draw(50, 2)
    heard = (sound * 327.68).round().view(50, 2 * PHONES_PER_FRAME, -1)
    assert torch.equal(heard[..., 0].long(), phones.flatten(1)) and torch.equal(heard[..., -1], heard[..., 0])
    assert set(phones.unique().tolist()) == {7, 9}
