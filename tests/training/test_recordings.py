"""Recordings of people are written beside the teacher's speech, and every stage can learn from them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from training_kit import SENTENCES, pool_of, stage_of

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import InputError
from omnitts_cli.training import recordings
from omnitts_cli.training.codec_stage import CodecStage
from omnitts_cli.training.perceptual_loss import PerceptualLoss
from omnitts_cli.training.pool import FOLDER, UNNAMED, WORDLESS, ShardReader, TeacherUtterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import LOUDNESS, SAMPLE_RATE, SAMPLES_PER_FRAME, UNKNOWN
from omnitts_cli.training.team import Team
from omnitts_cli.training.texts import TrainingLine

READERS = {"ann": ("f", 220.0), "bob": ("m", 110.0)}


def buzz(hertz: float, seconds: float) -> np.ndarray:
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return np.asarray(sum(np.sin(2 * np.pi * hertz * n * time) / n for n in range(1, 9)) * 0.02, np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two readers: three parts with words, one without."""
    lines = []
    for reader, (sex, hertz) in READERS.items():
        soundfile.write(tmp_path / f"{reader}.flac", buzz(hertz, 5.0), SAMPLE_RATE)
        for number, (start, end) in enumerate(((0.0, 1.5), (1.5, 2.7), (2.7, 4.0), (4.0, 5.0))):
            words = SENTENCES[number] if number < 3 else ""
            lines.append(f"{reader}.flac\t{reader}\t{sex}\t{start}\t{end}\t{words}\n")
    (tmp_path / "list.tsv").write_text("".join(lines))
    return tmp_path


def recorded(made: Recipe, folder: Path, lines: list[TrainingLine]) -> list[TeacherUtterance]:
    recordings.record(made, folder, lines, folder)
    reader, found = ShardReader(folder / FOLDER), list[TeacherUtterance]()
    while more := reader.read():
        found += more
    return found


def test_every_part_is_there_several_times(small: Recipe, folder: Path, lines: list[TrainingLine]) -> None:
    made = replace(small, recordings=replace(small.recordings, copies=3, tract=(0.8, 1.2)))
    found = recorded(made, folder, lines)
    assert len(found) == 3 * 2 * 5  # three parts with words make two pairs
    worded = [u for u in found if u.text != WORDLESS]
    assert len(worded) == 3 * 2 * 4 and {u.text for u in worded} == {0, 1, 2}
    for one, other in zip(worded[::2], worded[1::2], strict=True):
        assert one.speaker == other.speaker != 0 and one.facts.woman == other.facts.woman
    assert len({u.speaker for u in worded}) == 12
    for u in found:
        assert u.voice == UNNAMED and (u.phones == UNKNOWN).all()
        assert len(u.sound) == len(u.phones) * SAMPLES_PER_FRAME
        assert np.isnan([u.facts.british, *u.facts.style, u.facts.tract]).all()
        loud = u.sound[2400:20000].astype(np.float64) / 32767
        assert abs(np.sqrt((loud**2).mean()) / LOUDNESS - 1) < 0.1
    pitches = {round(u.facts.pitch) for u in found if u.facts.woman}
    assert min(pitches) < 215 < 225 < max(pitches) or len(pitches) > 1
    assert all(170 < hertz < 270 for hertz in pitches)


def test_recordings_can_be_left_to_the_codec(small: Recipe, folder: Path, lines: list[TrainingLine]) -> None:
    made = replace(small, recordings=replace(small.recordings, copies=2, words=False))
    found = recorded(made, folder, lines)
    assert len(found) == 2 * 2 * 4 and all(u.text == WORDLESS for u in found)


def test_a_part_that_is_too_long_is_cut_and_loses_its_words(
    small: Recipe, folder: Path, lines: list[TrainingLine]
) -> None:
    (folder / "list.tsv").write_text(f"ann.flac\tann\tf\t0\t5\t{SENTENCES[0]}\n")
    made = replace(small, teacher=replace(small.teacher, longest=2.0))
    found = recorded(made, folder, lines)
    assert len(found) == 2 and all(u.text == WORDLESS for u in found)
    assert max(len(u.sound) for u in found) <= 2.0 * SAMPLE_RATE + SAMPLES_PER_FRAME


@pytest.mark.parametrize("line", ["ann.flac\tann\tf\t0\t5\n", "ann.flac\tann\tf\t0\tlast\twords\n"])
def test_a_line_that_is_not_understood_is_named(folder: Path, line: str) -> None:
    (folder / "list.tsv").write_text(line)
    with pytest.raises(InputError, match="line 1"):
        recordings.parts(folder)
    (folder / "list.tsv").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        recordings.parts(folder)


def test_every_stage_learns_from_them(
    one_length: Recipe, folder: Path, lines: list[TrainingLine], shards: ShardReader
) -> None:
    """Nothing becomes NaN, and the language side takes what has words alone."""
    found = recorded(one_length, folder, lines)
    pool = pool_of(shards)
    for _ in range(6):
        pool.add(found)
    codec = CodecStage(one_length, CPUDevice(1), pool, Team())
    codec.start_books()
    codec.learn(bypass=False)
    codec.update()
    assert codec.losses.isfinite().all() and codec.learned[0].isfinite().all()
    heard = PerceptualLoss(8, pool, CPUDevice(1))
    sound, places = pool.draw_whole(4, 6)
    heard.freeze()
    assert all(off.isfinite() for off in heard.measure(sound, sound, places))

    stage = stage_of(one_length)
    before = stage.dataset.unnamed[0].added
    for _ in range(4):
        stage.dataset.add(found)
    table = stage.dataset.unnamed[0]
    assert table.added > before and table.made[: table.added].isnan().any()
    for _ in range(3):
        stage.learn(0)
        stage.update()
    assert stage.losses.isfinite().all() and all(weight.isfinite().all() for weight in stage.learned)
    assert torch.tensor(list(stage.held_back().values())).isfinite().all()
