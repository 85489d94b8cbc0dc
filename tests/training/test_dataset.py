"""Dataset: what is kept of an utterance, and where."""

from dataclasses import replace

import torch
from training_kit import stage_of

from omnitts_cli.models.speaker import log_mel
from omnitts_cli.training.dataset import MEL, UnnamedTable
from omnitts_cli.training.pool import UNNAMED, TeacherUtterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import STYLE, Facts


def test_the_first_utterances_are_held_back_and_lone_ones_are_not_kept(small: Recipe) -> None:
    dataset, held = stage_of(small).dataset, small.speech_training.held_back
    assert dataset.held_back[0].added == held <= dataset.held_back_unnamed[-1].added
    assert dataset.tables[0].added == 16 - held
    assert sum(table.added for table in (*dataset.unnamed, *dataset.held_back_unnamed)) == 16
    dataset, lone = stage_of(small).dataset, Facts(0.0, 0.0, 100.0, 4.0, (0.0,) * STYLE)
    before = list(dataset._waiting_unnamed)
    sound = torch.zeros(4 * 1920, dtype=torch.int16).numpy()
    phones = torch.zeros(4, 2, dtype=torch.uint8).numpy()
    dataset.add([TeacherUtterance(2, UNNAMED, sound, phones, lone, 9)])
    assert dataset._waiting_unnamed == before


def test_each_utterance_is_stored_with_the_other_one_of_its_speaker(one_length: Recipe) -> None:
    free = replace(one_length, teacher=replace(one_length.teacher, locked=False))
    table = stage_of(free).dataset.unnamed[0]
    own, other = table.facts[: table.added, :2], table.before_facts[: table.added]
    assert table.added > 0 and set(own[:, 1].tolist()) == {6, 18} == set(other[:, 1].tolist())
    assert (own != other).all()  # the two sentences have six and eighteen letters
    first = int(own[:, 1].argmax())
    second = int(own[:, 1].argmin())
    assert torch.equal(table.codes[first, :18], table.before_codes[second, :18])
    assert torch.equal(table.text[first], table.before_text[second])
    assert torch.allclose(
        table.made[: table.added], torch.tensor(Facts(0.0, 1.0, 135.0, 5.4, (0.5,) * STYLE).numbers())
    )
    assert (table.facts[: table.added, 2] == UNNAMED).all()


def test_a_clip_is_not_locked_to_the_frames_when_the_teacher_is(one_length: Recipe) -> None:
    """Its codes are of frames with different delays, and so those of other sound."""
    locked = replace(one_length, teacher=replace(one_length.teacher, locked=True))
    free = stage_of(replace(locked, teacher=replace(locked.teacher, locked=False))).dataset.unnamed[0]
    table = stage_of(locked).dataset.unnamed[0]
    assert torch.equal(table.codes, free.codes) and torch.equal(table.before_facts, free.before_facts)
    assert not torch.equal(table.before_codes, free.before_codes)


def test_mel_bands_are_those_of_the_family_also_of_a_clip_that_is_too_long(small: Recipe) -> None:
    """A sound of just the clip's length comes through whole, a shorter one again and again."""
    table = UnnamedTable(60, 3, 4, torch.device("cpu"), 0.4)
    sound = (torch.randn(9600) * 3000).to(torch.int16)
    codes, clips = torch.zeros(2, 5, 3), [sound, sound[:3840]]
    table.add_unnamed(torch.tensor([0, 1]), [[1, 2], [3]], [[4], [5]], codes, clips)
    whole = log_mel(sound[None].float() / 32768, MEL)[0]
    assert torch.allclose(table.mels[0].float(), whole, atol=0.01)
    twice = log_mel(sound[:3840].repeat(3)[:9600][None].float() / 32768, MEL)[0]
    assert torch.allclose(table.mels[1].float(), twice, atol=0.01)
    assert table.before_facts.tolist()[:2] == [[1, 5], [1, 2]]
    assert table.instruction[0, :2].tolist() == [1, 2] and table.instructed.tolist()[:2] == [2, 1]
    table = UnnamedTable(20, 3, 4, torch.device("cpu"), 0.4)
    long = torch.ones((table.frames + 1) * 1920, dtype=torch.int16)
    table.add_unnamed(torch.tensor([0]), [[1]], [[4] * 30], torch.ones(1, table.frames + 1, 3), [long])
    assert table.before_facts[0].tolist() == [0, 0]
    assert table.mels[0].any()


def test_unnamed_speakers_are_stored_where_description_and_sound_fit(small: Recipe) -> None:
    plan, unnamed = replace(small.speech_training, lengths=(42, 170)), small.unnamed_speakers
    unnamed = replace(unnamed, clips=(0.5, 1.0), cloned=(0.3, 0.3), described=(0.2, 0.2))
    short = replace(small, speech_training=plan, unnamed_speakers=unnamed)
    dataset = stage_of(short).dataset
    assert dataset.tables[0].added > 0
    for rows, table in zip((42, 170), (*dataset.held_back_unnamed, *dataset.unnamed)[:2], strict=True):
        assert (11 + table.instructed + table.facts[:, :2].sum(1) <= rows).all()
