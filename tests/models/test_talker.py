"""The talker against the official package, and its cached way against the whole one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from golden_set import case
from tiny_models import language
from torch import Tensor

CASES = (
    "custom_voice/english_nonstream", "custom_voice_small/english_nonstream", "base/icl_stream_text_longer",
    "base/xvector_stream", "base_large/icl_nonstream",
)  # fmt: skip
ZERO = torch.zeros(1, dtype=torch.int64)
close = {"rtol": 1e-4, "atol": 2e-5}


def heard(tensors: dict[str, Tensor]) -> Tensor:
    """Every row that the talker reads in a case: the prompt, then the frames."""
    return torch.cat([tensors["prefill.inputs_embeds"], tensors["talker.step_input"]], 1)


def talker_of(name: str) -> Any:
    return language(name.split("/")[0]).talker


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_hidden_states_and_logits(name: str) -> None:
    one, talker = case(name), talker_of(name)
    rows = heard(one.tensors)
    prompt = one.tensors["prefill.inputs_embeds"].shape[1]
    hidden = talker(rows)
    torch.testing.assert_close(hidden[:, :prompt], one.tensors["talker.prefill_last_hidden"], **close)
    torch.testing.assert_close(hidden[:, prompt:], one.tensors["talker.step_hidden"], **close)
    logits = talker.logits(hidden[0, prompt - 1 :])
    torch.testing.assert_close(one.same("talker.logits", logits), one.tensors["talker.logits"][:, 0], **close)


@torch.no_grad()
@pytest.mark.parametrize("name", CASES[:3])
@pytest.mark.parametrize("run", [1, 3, 7, 1000])
def test_prefill_in_runs_then_steps_is_the_whole(name: str, run: int) -> None:
    one, talker = case(name), talker_of(name)
    rows, whole = heard(one.tensors), talker(heard(one.tensors))
    prompt = one.tensors["prefill.inputs_embeds"].shape[1]
    cache = talker.cache(1, rows.shape[1] + 4)
    parts = []
    for start in range(0, prompt - 1, run):
        piece = rows[:, start : min(start + run, prompt - 1)]
        talker.prefill(piece, ZERO + start, ZERO, cache, cache.capacity)
        filled = cache.keys.clone(), cache.values.clone()
        positions = start + torch.arange(piece.shape[1])[None]
        parts.append(talker.stack.cached(piece, positions, ZERO, cache, cache.capacity))
        assert torch.equal(cache.keys, filled[0]) and torch.equal(cache.values, filled[1])
    torch.testing.assert_close(torch.cat(parts, 1), whole[:, : prompt - 1], **close)
    for at in range(prompt - 1, rows.shape[1]):
        hidden = talker.step(rows[:, at], ZERO + at, ZERO, cache, at + 1)  # the tightest bound that is allowed
        torch.testing.assert_close(hidden, whole[:, at], **close)


@torch.no_grad()
def test_padding_on_the_right_changes_no_row() -> None:
    """Neither in the whole way nor in the cached one, where what it wrote is overwritten before it is read."""
    talker = language("custom_voice").talker
    rows = torch.randn(1, 9, 64, generator=torch.Generator().manual_seed(0))
    whole = talker(rows)
    padded = torch.cat([rows, torch.full((1, 5, 64), 3.0)], 1)
    torch.testing.assert_close(talker(padded)[:, :9], whole, **close)
    cache = talker.cache(1, 20)
    talker.prefill(padded[:, :12], ZERO, ZERO, cache, 20)
    cache = talker.cache(1, 20)
    talker.prefill(torch.cat([rows[:, :6], padded[:, 9:]], 1), ZERO, ZERO, cache, 20)
    for at in range(6, 9):
        torch.testing.assert_close(talker.step(rows[:, at], ZERO + at, ZERO, cache, 20), whole[:, at], **close)
