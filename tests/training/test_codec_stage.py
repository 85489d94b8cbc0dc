"""The codec stage goes on from a checkpoint, or from an exported codec."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from training_kit import pool_of, two_members

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.training.codec_stage import CodecStage, TrainingLoop, named, train_codec
from omnitts_cli.training.export import export_codec
from omnitts_cli.training.pool import ShardReader, SoundPool, TeacherUtterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.stage_results import exported_codec, trained_codec
from omnitts_cli.training.teacher import PHONES, PHONES_PER_FRAME, SAMPLES_PER_FRAME, STYLE, UNKNOWN, Facts
from omnitts_cli.training.team import Team
from omnitts_cli.tuning.journal import Budget, Journal

NOBODY = Facts(0.0, 0.0, 100.0, 4.0, (0.0,) * STYLE)


@pytest.mark.parametrize("left", ["checkpoint", "exported", "nothing"])
def test_it_goes_on_from_what_it_finds(small: Recipe, shards: ShardReader, tmp_path: Path, left: str) -> None:
    torch.manual_seed(0)
    pool = SoundPool(0.01, torch.device("cpu"))
    if left != "nothing":
        CodecStage(small, CPUDevice(1), pool, Team()).save(tmp_path)
    if left == "exported":
        export_codec(small, tmp_path, tmp_path / "tiny" / "speech_tokenizer")
        (tmp_path / "codec.0.safetensors").unlink()
    train_codec(CodecStage, small, CPUDevice(1), shards, pool, tmp_path, 0.005, Team())
    lines = [json.loads(line) for line in (tmp_path / "curves.jsonl").read_text().splitlines()]
    assert lines[0]["event"] == "start" and lines[0]["resumed"] == (left != "nothing")
    assert lines[-1]["event"] == "end" and lines[-2]["step"] > 0 and "mel" in lines[-2]  # even after few steps
    assert (tmp_path / "codec.0.safetensors").exists()


def test_the_books_of_a_finished_codec_can_stay(small: Recipe, shards: ShardReader, tmp_path: Path) -> None:
    """And the encoder learns on, so that codes keep their meaning."""
    kept = replace(small, codec_training=replace(small.codec_training, keeps_books=True))
    CodecStage(small, CPUDevice(1), SoundPool(0.01, torch.device("cpu")), Team()).save(tmp_path)
    export_codec(small, tmp_path, tmp_path / "tiny" / "speech_tokenizer")
    (tmp_path / "codec.0.safetensors").unlink()
    before = exported_codec(small, tmp_path / "tiny" / "speech_tokenizer")
    train_codec(CodecStage, kept, CPUDevice(1), shards, pool_of(shards, 0.01), tmp_path, 0.005, Team())
    after = trained_codec(kept, tmp_path)
    for half in ("leading", "residual"):
        old, new = (getattr(codec.encoder.quantiser, half) for codec in (before, after))
        # the centre of the latents, which may move, is in the first book
        entries = [one.books - one.books.mean(1, keepdim=True) for one in (old, new)]
        assert torch.allclose(*entries, atol=1e-6) and not torch.equal(old.into.weight, new.into.weight)
    assert not torch.equal(before.decoder.closing.conv.weight, after.decoder.closing.conv.weight)


def test_a_step_moves_what_should_move(small: Recipe, shards: ShardReader) -> None:
    stage = CodecStage(small, CPUDevice(1), pool_of(shards, 0.01), Team())
    stage.start_books()
    learned = (
        stage.encoder.opening.conv.weight,
        stage.encoder.quantiser.residual.into.weight,
        stage.decoder.quantiser.leading.out.weight,
        stage.decoder.closing.conv.weight,
        stage.phones[0].weight,
    )
    before, books = [weight.detach().clone() for weight in learned], stage.quantiser.residual.books.clone()
    stage.learn(bypass=False)
    stage.update()
    assert not any(torch.equal(old, new) for old, new in zip(before, learned, strict=True))
    assert not torch.equal(books, stage.quantiser.residual.books)
    assert bool(stage.losses.isfinite().all()) and bool((stage.losses > 0).all())


def test_it_learns_at_the_rate_in_the_journal(small: Recipe, shards: ShardReader) -> None:
    stage = CodecStage(small, CPUDevice(1), pool_of(shards, 0.01), Team())
    before = [weight.detach().clone() for weight in stage.learned]
    stage.learn(bypass=True)
    stage.rate.fill_(0.0)
    stage.update()
    assert all(torch.equal(old, new) for old, new in zip(before, stage.learned, strict=True))


@pytest.mark.parametrize(("started", "wanted"), [(False, [0.0, 0.5, 1.0, 1.0]), (True, [1.0] * 4)])
def test_the_running_measure_is_trusted_alone_from_the_middle_on(
    small: Recipe, shards: ShardReader, tmp_path: Path, started: bool, wanted: list[float]
) -> None:
    """From the beginning, where the codec has learned before."""
    stage = CodecStage(small, CPUDevice(1), pool_of(shards, 0.01), Team())
    journal = Journal(tmp_path / "c", "codec")
    loop = TrainingLoop(stage, lambda step, keeps=False: step, shards, journal, tmp_path, Budget(1.0), started)
    trusted = []
    for spent in (0.0, 0.25, 0.5, 0.9):
        loop._set_rate(spent)
        trusted.append(float(stage.quantiser.trust))
    assert trusted == wanted


def test_phones_that_are_not_known_do_not_count() -> None:
    scores, phones = torch.randn(4, len(PHONES)), torch.tensor([3, UNKNOWN, 5, UNKNOWN])
    assert torch.allclose(named(scores, phones), F.cross_entropy(scores[[0, 2]], phones[[0, 2]]))
    assert named(scores, torch.full((4,), UNKNOWN)) == 0


def test_compiling_does_not_count_as_training(small: Recipe, shards: ShardReader, tmp_path: Path) -> None:
    order: list[str] = []

    class Noted(Budget):
        @property
        def spent(self) -> float:
            order.append(f"{self._seconds / 60} minutes begin")
            return 1.0

    def capture(step: Callable[[], None], keeps: bool = False) -> Callable[[], None]:
        order.append("captured")  # this compiles on an accelerator
        return step

    stage = CodecStage(small, CPUDevice(1), pool_of(shards, 0.01), Team())
    TrainingLoop(stage, capture, shards, Journal(tmp_path / "c", "codec"), tmp_path, Noted(3.0), True).run()
    assert order == ["captured", "captured", "3.0 minutes begin"]


def test_drawn_sound_comes_with_its_own_phones() -> None:
    pool = SoundPool(0.001, torch.device("cpu"))
    for length, phone in ((3, 7), (5, 9)):
        # every half frame sounds like its number, so that the two can be told apart
        sound = np.full(length * SAMPLES_PER_FRAME, phone * 100, np.int16)
        pool.add([TeacherUtterance(0, 0, sound, np.full((length, PHONES_PER_FRAME), phone, np.uint8), NOBODY)])
    sound, phones = pool.draw(50, 2)
    drawn = (sound * 327.68).round().view(50, 2 * PHONES_PER_FRAME, -1)
    assert torch.equal(drawn[..., 0].long(), phones.flatten(1)) and torch.equal(drawn[..., -1], drawn[..., 0])
    assert set(phones.unique().tolist()) == {7, 9}


MEMBER = """
from pathlib import Path
import numpy as np
import torch
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.training import recipe
from omnitts_cli.training.codec_stage import CodecStage
from omnitts_cli.training.pool import SoundPool, TeacherUtterance
from omnitts_cli.training.teacher import STYLE, Facts
from omnitts_cli.training.team import Team

team, pool = Team(), SoundPool(0.01, torch.device("cpu"))
torch.manual_seed(team.rank)
noise = np.random.default_rng(team.rank).integers(-3000, 3000, 1920 * 8).astype(np.int16)
pool.add([TeacherUtterance(0, 0, noise, np.zeros((8, 2), np.uint8), Facts(0, 0, 100, 4, (0.0,) * STYLE))])
stage = CodecStage(recipe.read(None, miniature=True), CPUDevice(1), pool, team)
stage.start_alike()
stage.start_books()
for _ in range(2):
    stage.learn(bypass=False)
    stage.exchange()
    stage.update()
weights = {f"{m}.{n}": t for m, module in stage.modules().items() for n, t in module.state_dict().items()}
torch.save((weights, stage.losses), Path(__file__).with_name(f"left.{team.rank}"))
team.close()
"""


def test_a_team_of_two_ends_its_steps_alike(tmp_path: Path) -> None:
    two_members(tmp_path, MEMBER)
    (first, drawn), (second, also_drawn) = (torch.load(tmp_path / f"left.{rank}") for rank in range(2))
    assert not torch.equal(drawn, also_drawn)  # each has its own speech
    assert all(torch.allclose(first[name], second[name], atol=1e-6) for name in first)
