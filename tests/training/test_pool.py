"""Shards come back as they were written, each once, and members of a team read different ones."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch
from patience import LONG_S
from safetensors import SafetensorError

from omnitts_cli.training import pool
from omnitts_cli.training.pool import UNNAMED, ShardReader, SoundPool, TeacherUtterance, read_shard, write_shard
from omnitts_cli.training.teacher import SAMPLES_PER_FRAME, STYLE, Facts

FACTS = Facts(0.25, 1.0, 120.0, 4.5, (0.5,) * STYLE)


def said(text: int, frames: int, speaker: int = 0) -> TeacherUtterance:
    sound = np.arange(frames * SAMPLES_PER_FRAME).astype(np.int16) + text
    phones = np.full((frames, 2), text, np.uint8)
    return TeacherUtterance(text, UNNAMED if speaker else 1, sound, phones, FACTS, speaker)


def test_a_shard_comes_back(tmp_path: Path) -> None:
    asked = [said(3, 2), said(5, 4, speaker=2**61 + 1)]
    write_shard(tmp_path / "0-00000.safetensors", asked)
    for one, other in zip(asked, read_shard(tmp_path / "0-00000.safetensors"), strict=True):
        assert (one.text, one.voice, one.facts, one.speaker) == (other.text, other.voice, other.facts, other.speaker)
        assert np.array_equal(one.sound, other.sound) and np.array_equal(one.phones, other.phones)


def test_each_member_reads_its_own_shards_once(tmp_path: Path) -> None:
    for series in range(2):
        for number in range(2):
            write_shard(tmp_path / f"{series}-{number:05d}.safetensors", [said(10 * series + number, 1)])
    read_by_members = []
    for member in range(2):
        shards = ShardReader(tmp_path, member, 2)
        read_by_members.append([u.text for u in (*shards.read(1), *shards.read(1))])
        assert shards.read() == []
    assert read_by_members == [[0, 10], [1, 11]]


def test_a_reader_that_waits_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a message, a stage that waits for the teacher looks as if it hangs."""
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            write_shard(tmp_path / "0-00000.safetensors", [said(4, 1)])

    monkeypatch.setattr(pool.time, "sleep", sleep)
    assert [u.text for u in ShardReader(tmp_path).read(1)] == [4]
    assert len(looks) == 3 and capsys.readouterr().err == f"waiting for more speech in {tmp_path}\n"


def test_no_more_is_read_at_a_time_than_requested_and_an_unreadable_shard_is_reported(tmp_path: Path) -> None:
    write_shard(tmp_path / "0-00000.safetensors", [said(n, 1) for n in range(5)])
    shards = ShardReader(tmp_path)
    assert [len(shards.read(at_most=2)) for _ in range(4)] == [2, 2, 1, 0]
    (tmp_path / "0-00001.safetensors").write_bytes(b"cut off")
    with pytest.raises(SafetensorError):
        shards.read()


def test_shards_are_read_again_with_frames_that_begin_elsewhere(tmp_path: Path) -> None:
    """Copies begin with silence and end where the speech ends; of what was read before there are none."""
    write_shard(tmp_path / "0-00000.safetensors", [said(7, 1)])
    shards = ShardReader(tmp_path)
    assert [u.text for u in shards.read(1)] == [7]
    shards.copy_what_follows(4)
    sound, phones = np.arange(1, 3841, dtype=np.int16), np.array([[1, 2], [3, 4]], np.uint8)
    write_shard(tmp_path / "0-00001.safetensors", [replace(said(8, 1), sound=sound, phones=phones)])
    found = [utterance for _ in range(4) for utterance in shards.read(1)]
    assert shards.read() == []
    assert [u.text for u in found] == [8] * 4
    for part, utterance in enumerate(found):
        assert utterance.sound.tolist() == [0] * (480 * part) + list(range(1, 3841 - 480 * part))
    assert [u.phones.reshape(-1).tolist() for u in found[::2]] == [[1, 2, 3, 4], [0, 1, 2, 3]]


def test_no_learner_waits_for_a_shard_that_is_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, finished = Event(), Event()

    def slow(path: Path, later: int) -> Iterator[TeacherUtterance]:
        reading.set()
        assert finished.wait(LONG_S)
        yield from read_shard(path, later)

    monkeypatch.setattr(pool, "read_shard", slow)
    write_shard(tmp_path / "0-00000.safetensors", [said(7, 1)])
    shards = ShardReader(tmp_path)
    assert shards.read(at_once=False) == []
    assert reading.wait(LONG_S) and shards.read(at_once=False) == []  # the same shard is not begun twice
    finished.set()
    assert [u.text for u in shards.read()] == [7]  # who can wait gets it
    assert shards.read(at_once=False) == []


def test_whole_frames_are_drawn_with_their_places() -> None:
    """Every frame sounds like its number."""
    found = SoundPool(0.001, torch.device("cpu"))
    sound = np.repeat(np.arange(12, dtype=np.int16) * 100, SAMPLES_PER_FRAME)
    found.add([TeacherUtterance(0, 1, sound, np.zeros((12, 2), np.uint8), FACTS)])
    drawn, places = found.draw_whole(40, 3)
    numbers = (drawn * 327.68).round().view(40, 3, SAMPLES_PER_FRAME)
    assert torch.equal(numbers.long(), places[..., None].expand(numbers.shape))
    assert set(places[:, 0].tolist()) <= set(range(10))
