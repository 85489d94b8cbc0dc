"""Lessons: what is kept of an utterance, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from omnitts_cli.models.mel import log_mel
from omnitts_cli.training.lessons import MEL, StrangerTable
from omnitts_cli.training.pool import PASSING, Utterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speech_stage import SpeechStage
from omnitts_cli.training.strangers import facts
from omnitts_cli.training.teacher import TeacherVoice

Build = Callable[[Recipe], SpeechStage]


def test_the_first_utterances_are_held_back(small: Recipe, stage_of: Build) -> None:
    lessons, held = stage_of(small).lessons, small.speech_training.held_back
    assert lessons.held_back[0].added == lessons.held_strangers[0].added == held
    assert lessons.tables[0].added == lessons.strangers[0].added == 16 - held


def test_the_two_utterances_of_a_stranger_are_neighbours(small: Recipe, stage_of: Build) -> None:
    table = stage_of(small).lessons.strangers[0]
    lengths = table.facts[: table.added, 0].view(-1, 2)
    assert (lengths[:, 0] != lengths[:, 1]).all()  # one sentence each
    assert torch.allclose(table.made[: table.added], torch.tensor(facts(TeacherVoice("awb", 0.9, 1.2))))
    assert (table.facts[: table.added, 2] == PASSING).all()


def test_a_stranger_who_speaks_once_is_not_kept(small: Recipe, stage_of: Build) -> None:
    stage = stage_of(small)
    lessons, lone = stage.lessons, TeacherVoice("rms", 1.1)
    before = [list(line) for line in lessons._waiting_strangers]
    sound = torch.zeros(4 * 1920, dtype=torch.int16).numpy()
    phones = torch.zeros(4, 2, dtype=torch.uint8).numpy()
    lessons.add([Utterance(2, PASSING, sound, phones, lone)])
    assert [list(line) for line in lessons._waiting_strangers] == before


def test_a_clip_is_heard_as_the_family_hears_it(small: Recipe) -> None:
    """A sound of just the clip's length comes through whole, a shorter one again and again."""
    table = StrangerTable(60, 3, 4, torch.device("cpu"), 0.4)
    sound = (torch.randn(9600) * 3000).to(torch.int16)
    said = [
        Utterance(0, PASSING, sound[:length].numpy(), torch.zeros(5, 2).byte().numpy(), TeacherVoice("rms"))
        for length in (9600, 4800)
    ]
    table.add_strangers(torch.tensor([0, 1]), [[1, 2], [3]], said)
    whole = log_mel(sound[None].float() / 32768, MEL)[0]
    assert torch.allclose(table.mels[0].float(), whole, atol=0.01)
    twice = log_mel(sound[:4800].repeat(2)[None].float() / 32768, MEL)[0]
    assert torch.allclose(table.mels[1].float(), twice, atol=0.01)
    assert table.instruction[0, :2].tolist() == [1, 2] and table.instructed.tolist()[:2] == [2, 1]


def test_strangers_wait_where_description_and_sound_fit(small: Recipe, stage_of: Build) -> None:
    short = replace(small, speech_training=replace(small.speech_training, lengths=(48, 140)))
    lessons = stage_of(short).lessons
    assert lessons.tables[0].added > 0 == lessons.strangers[0].added + lessons.held_strangers[0].added
    assert lessons.strangers[1].added > 0
    assert not lessons.ready(1)
