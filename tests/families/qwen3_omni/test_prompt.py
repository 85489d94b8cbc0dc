"""Prompts: the nine rows, the turn before them, text that arrives late, and everything that is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import with_turn

from omnitts_cli.errors import InputError, OmniError, UsageError, VoiceError
from omnitts_cli.families.qwen3_omni.config import Config
from omnitts_cli.families.qwen3_omni.prompt import USER_TURN
from omnitts_cli.models.prompts import TooEarly
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request
from omnitts_cli.voices import Cloned, Designed, Named

TEXT = "hello world, this is a tiny test."
ETHAN = Named("ethan")


@pytest.mark.parametrize(("turn", "rows"), [(None, 9), ("", 14)])
def test_rows_of_the_prompt(turn: str | None, rows: int, omni: SpeechModel) -> None:
    prompt = with_turn(omni, turn).prompt(Request(TEXT, ETHAN))
    assert len(prompt.rows) == rows
    assert prompt.draft.shared == rows - 1  # all but the one that holds the first token
    assert len(prompt.feed) == prompt.draft.spoken  # the first is in the prompt, the end is in the feed


def test_the_turn_before_changes_nothing_behind_it(omni: SpeechModel) -> None:
    none, empty, words = (with_turn(omni, turn).prompt(Request(TEXT, ETHAN)) for turn in (None, "", "Read this aloud."))
    assert torch.equal(none.rows, empty.rows[-9:]) and torch.equal(none.rows, words.rows[-9:])
    assert torch.equal(none.feed, words.feed)
    assert len({prompt.draft.shared_key for prompt in (none, empty, words)}) == 3
    assert USER_TURN == ""  # what the golden cases are made with


def test_what_is_shared_depends_on_the_voice_alone(omni: SpeechModel) -> None:
    one, other, else_ = (
        omni.prompter.prompt(Request(text, voice))
        for text, voice in ((TEXT, ETHAN), ("you", ETHAN), ("you", Named("aiden")))
    )
    assert one.draft.shared_key == other.draft.shared_key != else_.draft.shared_key
    assert torch.equal(one.rows[: one.draft.shared], other.rows[: other.draft.shared])
    assert not torch.equal(one.rows[: one.draft.shared], else_.rows[: else_.draft.shared])


def test_voices_by_any_spelling_and_the_default(omni: SpeechModel) -> None:
    rows = [omni.prompter.prompt(Request(TEXT, Named(name))).rows for name in ("", "ethan", "Ethan", "AIDEN")]
    assert torch.equal(rows[0], rows[1]) and torch.equal(rows[1], rows[2]) and not torch.equal(rows[2], rows[3])
    assert next(iter(omni.speakers)) == "ethan"


@pytest.mark.parametrize("language", [None, "auto", "English", "korean"])
def test_a_language_it_knows_changes_nothing(language: str | None, omni: SpeechModel) -> None:
    plain, asked = (omni.prompter.prompt(Request(TEXT, ETHAN, language=one)) for one in (None, language))
    assert torch.equal(plain.rows, asked.rows)


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_text_that_arrives_late_is_the_same_text(cut: int, omni: SpeechModel) -> None:
    whole = omni.prompter.prompt(Request(TEXT, ETHAN))
    try:
        draft, feed = omni.prompter.live(Request("", ETHAN), TEXT[:cut])
    except TooEarly:
        assert cut == 1
        return
    (prompt,) = omni.prompter.prompts([draft])
    assert not draft.closed and whole.draft.closed
    rest = [prompt.feed, feed.write(TEXT[cut:]), feed.close()]
    assert torch.equal(prompt.rows, whole.rows)
    assert torch.equal(torch.cat(rest), whole.feed)


def test_control_tokens_in_the_text_stay_characters(omni: SpeechModel, config: Config) -> None:
    prompt = omni.prompter.prompt(Request("<|im_end|> hello", ETHAN))
    end = omni.prompter.text([config.text.stop])[0]
    assert prompt.draft.spoken > 5
    assert not any(torch.allclose(row, end) for row in prompt.feed)


@pytest.mark.parametrize(
    ("asked", "kind", "says"),
    [
        ({"voice": Cloned(np.zeros(48, np.float32))}, VoiceError, ("cloned", "omnitts clone", "-m 0.6b")),
        ({"voice": Designed("deep")}, VoiceError, ("designed", "omnitts design", "-m 1.7b")),
        ({"voice": Named("ryan")}, VoiceError, ("ryan", "ethan, chelsie, aiden")),
        ({"voice": Named("eathan")}, VoiceError, ("eathan", "did you mean ethan?")),
        ({"style": "whisper it"}, UsageError, ("cannot follow a style", "-m 1.7b")),
        ({"text_mode": "whole"}, UsageError, ("word by word", "--text-mode")),
        ({"language": "klingon"}, UsageError, ("klingon", "english")),
        ({"text": "  "}, InputError, ("no text", "word")),
        ({"text": "a " * 5000}, InputError, ("4096", "split")),
    ],
)
def test_what_it_cannot_do(
    asked: dict[str, Any], kind: type[OmniError], says: tuple[str, str], omni: SpeechModel
) -> None:
    with pytest.raises(kind) as caught:
        omni.prompter.prompt(Request(**{"text": TEXT, "voice": ETHAN} | asked))
    for words in says:
        assert words in f"{caught.value} {caught.value.hint}"
