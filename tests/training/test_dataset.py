"""Dataset: what is kept of an utterance, and where."""

from __future__ import annotations

from dataclasses import replace

import torch
from training_kit import stage_of, utterance

from omnitts_cli.models.speaker import log_mel
from omnitts_cli.training.dataset import LOW_BEFORE, LOW_KEPT, MEL, StrangerTable
from omnitts_cli.training.low_wave import DOWN, LowWaves
from omnitts_cli.training.pool import PASSING, Utterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import STYLE, Facts


def test_the_first_utterances_are_held_back(small: Recipe) -> None:
    dataset, held = stage_of(small).dataset, small.speech_training.held_back
    assert dataset.held_back[0].added == held <= dataset.held_strangers[-1].added
    assert dataset.tables[0].added == 16 - held
    assert sum(table.added for table in (*dataset.strangers, *dataset.held_strangers)) == 16


def test_beside_an_utterance_stands_the_other_one_of_the_stranger(one_length: Recipe) -> None:
    table = stage_of(one_length).dataset.strangers[0]
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
    assert (table.facts[: table.added, 2] == PASSING).all()


def test_a_stranger_who_speaks_once_is_not_kept(small: Recipe) -> None:
    dataset, lone = stage_of(small).dataset, Facts(0.0, 0.0, 100.0, 4.0, (0.0,) * STYLE)
    before = list(dataset._waiting_strangers)
    sound = torch.zeros(4 * 1920, dtype=torch.int16).numpy()
    phones = torch.zeros(4, 2, dtype=torch.uint8).numpy()
    dataset.add([Utterance(2, PASSING, sound, phones, lone, 9)])
    assert dataset._waiting_strangers == before


def test_mel_bands_of_a_clip_are_those_of_the_family(small: Recipe) -> None:
    """A sound of just the clip's length comes through whole, a shorter one again and again."""
    table = StrangerTable(60, 3, 4, torch.device("cpu"), 0.4)
    sound = (torch.randn(9600) * 3000).to(torch.int16)
    codes, clips = torch.zeros(2, 5, 3), [sound, sound[:3840]]
    table.add_strangers(torch.tensor([0, 1]), [[1, 2], [3]], [[4], [5]], codes, clips)
    whole = log_mel(sound[None].float() / 32768, MEL)[0]
    assert torch.allclose(table.mels[0].float(), whole, atol=0.01)
    twice = log_mel(sound[:3840].repeat(3)[:9600][None].float() / 32768, MEL)[0]
    assert torch.allclose(table.mels[1].float(), twice, atol=0.01)
    assert table.before_facts.tolist()[:2] == [[1, 5], [1, 2]]
    assert table.instruction[0, :2].tolist() == [1, 2] and table.instructed.tolist()[:2] == [2, 1]


def test_a_clip_too_long_for_the_rows_gives_its_voice_but_is_not_continued(small: Recipe) -> None:
    table = StrangerTable(20, 3, 4, torch.device("cpu"), 0.4)
    long = torch.ones((table.frames + 1) * 1920, dtype=torch.int16)
    table.add_strangers(torch.tensor([0]), [[1]], [[4] * 30], torch.ones(1, table.frames + 1, 3), [long])
    assert table.before_facts[0].tolist() == [0, 0]
    assert table.mels[0].any()


def test_strangers_stand_where_description_and_sound_fit(small: Recipe) -> None:
    short = replace(small, speech_training=replace(small.speech_training, lengths=(42, 170)))
    dataset = stage_of(short).dataset
    assert dataset.tables[0].added > 0
    for rows, table in zip((42, 170), (*dataset.held_strangers, *dataset.strangers)[:2], strict=True):
        assert (11 + table.instructed + table.facts[:, :2].sum(1) <= rows).all()


def test_copies_are_later_by_parts_of_a_frame_and_none_is_of_what_is_held_back(one_length: Recipe) -> None:
    plan = replace(one_length.speech_training, copies=4)
    dataset = stage_of(replace(one_length, speech_training=plan)).dataset
    table, held = dataset.tables[0], plan.held_back
    assert dataset.held_back[0].added == held and table.added == 4 * (16 - held)
    # the same utterance in each copy: its words stay, its first phone begins at the nearest half frame
    batches = table.facts[: 4 * held].view(4, held, 3)
    assert (batches == batches[:1]).all()
    said = utterance(0, 1, one_length.voices[1].made)
    for copy, halves in enumerate((0, 0, 1, 2)):
        kept = table.phones[copy * held, : len(said.phones)].flatten()
        true = torch.from_numpy(said.phones).flatten()
        assert torch.equal(kept[halves:], true[: len(true) - halves]) and not kept[:halves].any()
    strangers = dataset.strangers[0].added
    assert dataset.held_strangers[0].added + strangers // 4 == 16 and strangers % 4 == 0


def test_the_low_wave_of_a_frame_begins_before_it_and_moves_with_the_copies(one_length: Recipe) -> None:
    plan = replace(one_length.speech_training, copies=4)
    table = stage_of(replace(one_length, speech_training=plan)).dataset.tables[0]
    said = utterance(0, 1, one_length.voices[1].made)
    wave = LowWaves()(torch.from_numpy(said.sound)[None].float() / 32768)[0][0]
    assert LOW_BEFORE * DOWN[0] == 480 and wave.abs().max() > 0.01
    first = 3 * 1920 // DOWN[0] - LOW_BEFORE
    assert torch.allclose(table.low[0, 3].float(), wave[first : first + LOW_KEPT], atol=1e-3)
    quarter, held = 480 // DOWN[0], plan.held_back
    later = wave[first - quarter : first - quarter + LOW_KEPT]
    assert torch.allclose(table.low[held, 3].float(), later, atol=1e-3)
