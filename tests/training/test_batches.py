"""Batches are built exactly as the family builds prompts: every row of every kind."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from training_kit import new_model, stage_of

from omnitts_cli.families.common.tokenizer import read_tokenizer
from omnitts_cli.families.qwen3_tts.config import read_config
from omnitts_cli.families.qwen3_tts.prompt import Qwen3Prompter
from omnitts_cli.request import Request
from omnitts_cli.training import dataset as dataset_module
from omnitts_cli.training.batches import Batch, Examples, cloned, designed, draw_mixed, lay_out, named
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speech_stage import SpeechStage
from omnitts_cli.training.tokens import TokenLists
from omnitts_cli.voices import Cloned, Designed, Named, Voice

FIRST, SECOND = "The cat sat by the door.", "Why not?"
DESCRIPTION = "A deep voice"


@pytest.fixture
def stage(one_length: Recipe, mode: str, language: str | None, monkeypatch: pytest.MonkeyPatch) -> SpeechStage:
    monkeypatch.setattr(dataset_module, "describe", lambda voice, draw: DESCRIPTION)
    streamed = float(mode == "streamed")
    plan = replace(
        one_length.speech_training,
        streamed=streamed,
        no_language=float(language is None),
        corrupt=0.0,
        history_dropout=0.0,
        drawn_history=0.0,
    )
    recipe = replace(
        one_length, speech_training=plan, unnamed_speakers=replace(one_length.unnamed_speakers, streamed=streamed)
    )
    return stage_of(recipe)


def prompter(stage: SpeechStage, tokens: TokenLists, folder: Path) -> Qwen3Prompter:
    made = new_model(stage.recipe, tokens, folder, speech=stage.speech, guesses=stage.speaker_heads)
    config = read_config(made)
    tokenizer = read_tokenizer(made, config.text_vocabulary, False)
    return Qwen3Prompter(config, tokenizer, stage.speech.text, stage.speech.embedder, torch.as_tensor)


def voice_of(kind: str, examples: Examples, vector: torch.Tensor | None, text: str) -> Voice:
    """The request's voice that must lead to the rows of the first example."""
    if kind == "named":
        return Named("clara")
    if kind == "designed":
        return Designed(DESCRIPTION)
    embedding = vector.detach().numpy()
    if kind == "cloned":
        return Cloned(embedding)
    codes = examples.before.codes[0, : int(examples.before.frames[0])].numpy()
    return Cloned(embedding, codes, SECOND if text == FIRST else FIRST)


@pytest.mark.parametrize("mode", ["whole", "streamed"])
@pytest.mark.parametrize("language", [None, "english"])
@pytest.mark.parametrize("kind", ["named", "cloned", "continued", "designed"])
def test_rows_are_those_of_the_familys_prompts(
    stage: SpeechStage, tokens: TokenLists, tmp_path: Path, mode: str, language: str | None, kind: str
) -> None:
    recipe, table, unnamed = stage.recipe, stage.dataset.tables[0], stage.dataset.unnamed[0]
    examples = {
        "named": lambda: named(table, 2, recipe),
        "cloned": lambda: cloned(unnamed, 2, recipe, 0.0),
        "continued": lambda: cloned(unnamed, 2, recipe, 1.0),
        "designed": lambda: designed(unnamed, 2, recipe),
    }[kind]()
    assert (int(examples.before.frames[0]) > 0) == (kind == "continued")
    batch = lay_out(examples, unnamed.rows, recipe, stage.codec_ids, stage.text_ids)
    vectors = stage.speech.speaker(batch.mel) if len(batch.mel) else None
    text = FIRST if int(examples.own.length[0]) == int(table.facts[0, 0]) else SECOND
    voice = voice_of(kind, examples, None if vectors is None else vectors[0], text)
    prompt = prompter(stage, tokens, tmp_path).prompt(Request(text, voice, language, text_mode=mode))
    with torch.no_grad():
        rows = stage.rows(batch, vectors)[0]
    count = len(prompt.rows)
    assert torch.allclose(rows[:count], prompt.rows, atol=1e-5)
    check_what_follows(stage, examples, batch, rows, count, torch.cat([prompt.feed, prompt.pad.expand(200, -1)]))


def check_what_follows(
    stage: SpeechStage, examples: Examples, batch: Batch, rows: torch.Tensor, count: int, text_rows: torch.Tensor
) -> None:
    """Behind the prompt: each frame's row and one row of text, or of padding when the text is over."""
    own = int(examples.own.frames[0])
    behind = batch.framed[0].clone()
    behind[:count] = False
    assert int(behind.sum()) == own and bool(behind[count])
    with torch.no_grad():
        frames = stage.speech.embedder.frame(batch.codes[0][behind])
    assert torch.allclose(rows[behind], frames + text_rows[:own], atol=1e-5)
    assert torch.equal(batch.codes[0][behind], examples.own.codes[0, :own])
    # learned are this sentence's frames and its end, from the prompt's last row on
    learned = batch.target[0]
    assert learned[count - 1 : count + own].tolist() == [*examples.own.codes[0, :own, 0].tolist(), stage.codec_ids.end]
    assert int((learned >= 0).sum()) == own + 1
    assert int(batch.followed[0].sum()) == own


def test_targets_end_with_the_end_and_a_clip_without_room_lends_its_voice(one_length: Recipe) -> None:
    stage = stage_of(one_length)
    table = stage.dataset.tables[0]
    batch = lay_out(named(table, 4, one_length), table.rows, one_length, stage.codec_ids, stage.text_ids)
    for targets, followed in zip(batch.target, batch.followed, strict=True):
        known = targets[targets >= 0]
        assert known[-1] == stage.codec_ids.end
        assert int(followed.sum()) == len(known) - 1 == int(stage.dataset.tables[0].facts[0, 1])
    stage = stage_of(one_length)
    whole = replace(one_length, unnamed_speakers=replace(one_length.unnamed_speakers, streamed=0.0))
    table = stage.dataset.unnamed[0]
    table.rows = 50
    examples = cloned(table, 8, whole, 1.0)
    assert int(examples.before.frames.sum()) == int(examples.before.length.sum()) == 0
    assert len(examples.mel) == 8


def test_a_mixed_batch_has_every_kind_and_vectors_learn_from_what_is_said(one_length: Recipe) -> None:
    stage = stage_of(one_length)
    tables = stage.dataset.tables[0], stage.dataset.unnamed[0]
    batch = draw_mixed(*tables, 20, stage.recipe, stage.codec_ids, stage.text_ids)
    by_clip, described = 6, 4
    assert len(batch.text) == 20 and len(batch.mel) == by_clip
    assert len(batch.made) == by_clip + described
    assert batch.voiced.any(1).tolist() == [True] * by_clip + [False] * (20 - by_clip)
    speakers = (batch.control >= stage.codec_ids.first_speaker) & batch.controlled
    assert speakers.any(1).tolist() == [False] * (by_clip + described) + [True] * (20 - by_clip - described)
    stage = stage_of(one_length)
    stage.learn(0)
    for name, weight in stage.speech.speaker.named_parameters():
        assert weight.grad is not None and weight.grad.abs().sum() > 0, name


def test_what_was_said_so_far_may_be_what_the_model_drew(one_length: Recipe) -> None:
    """All of it or a part, behind the leading group; the clip before it and what is to be learned stay true."""
    stage = stage_of(one_length)
    table = stage.dataset.unnamed[0]
    table.codes.fill_(3)
    table.before_codes.fill_(3)
    table.drawn.fill_(5)

    def codes(share: float) -> tuple[Batch, torch.Tensor]:
        plan = replace(one_length.speech_training, corrupt=0.0, drawn_history=share)
        recipe = replace(one_length, speech_training=plan)
        torch.manual_seed(1)
        examples = cloned(table, 32, recipe, 1.0)
        batch = lay_out(examples, table.rows, recipe, stage.codec_ids, stage.text_ids)
        return batch, batch.frame >= 1 - examples.before.frames

    batch, _ = codes(0.0)
    assert (batch.codes == 3).all()
    batch, said = codes(1.0)
    own = said & (batch.frame >= 1) & batch.framed
    assert (batch.codes[..., 0] == 3).all() and (batch.next_codes == 3).all()
    assert (batch.codes[said & (batch.frame < 1)] == 3).all()
    rest = batch.codes[..., 1:]
    assert ((rest == 5).all(-1) | (rest == 3).all(-1)).all()
    shares = [(row[mine][:, 0] == 5).float().mean() for row, mine in zip(rest, own, strict=True) if mine.any()]
    assert sum(share == 1 for share in shares) >= 8 and any(0 < share < 1 for share in shares)
