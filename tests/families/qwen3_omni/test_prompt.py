"""Prompts: how many rows, text that arrives late, and everything that is refused. What the rows hold: test_equal.py."""

from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import with_turn

from omnitts_cli.errors import InputError, OmniError, UsageError, VoiceError
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
