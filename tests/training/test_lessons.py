"""Batches are built exactly as the family builds prompts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.families.qwen3_tts.config import read_config
from omnitts_cli.families.qwen3_tts.prompt import Qwen3Prompter
from omnitts_cli.families.qwen3_tts.text import read_tokenizer
from omnitts_cli.request import Request
from omnitts_cli.training import parts
from omnitts_cli.training.codec_stage import CodecStage
from omnitts_cli.training.export import export
from omnitts_cli.training.lessons import Lessons, draw
from omnitts_cli.training.pool import SoundPool, Utterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.shapes import build_codec
from omnitts_cli.training.speech_stage import SpeechStage
from omnitts_cli.training.team import Team
from omnitts_cli.training.tokens import Tokens
from omnitts_cli.voices import Named

TEXT = "The cat sat by the door."


def stage_of(recipe: Recipe, tokens: Tokens, hummer: type) -> SpeechStage:
    """A stage whose lessons are one sentence of the second voice."""
    torch.manual_seed(0)
    spoken = hummer().speak(TEXT, recipe.voices[1].made)
    utterance = Utterance(0, 1, (spoken.sound * 32767).astype("int16"), spoken.phones)
    lessons = Lessons(recipe, build_codec(recipe.codec).encoder, [tokens.encoder().encode(TEXT).ids], 16)
    lessons.add([utterance] * 16)
    return SpeechStage(recipe, CPUDevice(1), tokens, lessons, Team())


@pytest.mark.parametrize("mode", ["whole", "streamed"])
@pytest.mark.parametrize("language", [None, "english"])
def test_rows_are_those_of_the_familys_prompts(
    small: Recipe, tokens: Tokens, hummer: type, tmp_path: Path, mode: str, language: str | None
) -> None:
    plan = replace(
        small.speech_training,
        streamed=float(mode == "streamed"),
        untold=float(language is None),
        corrupt=0.0,
        forgetful=0.0,
    )
    recipe = replace(small, speech_training=plan)
    stage = stage_of(recipe, tokens, hummer)
    stage.save(tmp_path)
    CodecStage(recipe, CPUDevice(1), SoundPool(0.001, torch.device("cpu"))).save(tmp_path)
    export(recipe, tmp_path, tokens, tmp_path / "tiny")
    config = read_config(tmp_path / "tiny")
    tokenizer = read_tokenizer(tmp_path / "tiny", config.text_vocabulary, False)
    prompter = Qwen3Prompter(config, tokenizer, stage.speech.text, stage.speech.embedder)
    request = Request(TEXT, Named(recipe.voices[1].name), language, text_mode=mode)
    prompt = prompter.prompt(request)
    batch = draw(stage.lessons.tables[0], 2, recipe, stage.codec_ids, stage.text_ids)
    with torch.no_grad():
        rows = stage.rows(batch)
        count = len(prompt.rows)
        assert torch.allclose(rows[0, :count], prompt.rows, atol=1e-5)
        # behind the prompt: each frame's row and one row of text, or of padding when the text is over
        assert bool(batch.framed[0, count]) and not bool(batch.framed[0, count - 1])
        heard = torch.cat([prompt.text.rows, prompt.pad[None].expand(200, -1)])[: int(batch.framed[0].sum())]
        frames = stage.speech.embedder.frame(batch.codes[0][batch.framed[0]])
        assert torch.allclose(rows[0][batch.framed[0]], frames + heard, atol=1e-5)


def test_targets_end_with_the_end(small: Recipe, tokens: Tokens, hummer: type) -> None:
    stage = stage_of(small, tokens, hummer)
    batch = draw(stage.lessons.tables[0], 4, small, stage.codec_ids, stage.text_ids)
    for targets, followed in zip(batch.target, batch.followed, strict=True):
        known = targets[targets >= 0]
        assert known[-1] == stage.codec_ids.end
        assert int(followed.sum()) == len(known) - 1 == int(stage.lessons.tables[0].facts[0, 1])


def test_the_first_utterances_are_held_back(small: Recipe, tokens: Tokens, hummer: type) -> None:
    lessons = stage_of(small, tokens, hummer).lessons
    assert lessons.held_back[0].added == small.speech_training.held_back
    assert lessons.tables[0].added == 16 - small.speech_training.held_back
    assert parts.gather(encoder=lessons._encoder)
