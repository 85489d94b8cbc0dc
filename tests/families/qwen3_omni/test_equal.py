"""The whole path against the official library: prompt rows, states, logits, greedy frames run free, and their sound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from golden_set import omni_case
from torch import Tensor

from omnitts_cli.families.qwen3_omni.names.language import expert_names
from omnitts_cli.families.qwen3_omni.prompt import OmniPrompter
from omnitts_cli.kernels.ops import Normed
from omnitts_cli.kernels.plain_experts import mixture
from omnitts_cli.models.experts import Experts
from omnitts_cli.models.roles import Prompt, SpeechModel
from omnitts_cli.models.sampling import Controls, choose_first, choose_rest
from omnitts_cli.request import Request
from omnitts_cli.voices import Named
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill

CASES = ("say", "say_short", "say_after_words")
MOST = 25


def near(ours: Tensor, theirs: Tensor) -> bool:
    """Equal up to the rounding of float32 products of other shapes."""
    return ours.shape == theirs.shape and bool((ours - theirs).abs().max() <= 1e-5 * theirs.abs().max())


class Alone:
    """One request without an engine, a frame at a time, greedily."""

    def __init__(self, model: SpeechModel, prompt: Prompt) -> None:
        self.model, self.prompt, self.made = model, prompt, 0
        self.position, capacity = len(prompt.rows) - 1, len(prompt.rows) + MOST
        self.cache, self.slots = model.talker.cache(1, capacity), torch.zeros(1, dtype=torch.int64)
        model.talker.prefill(prompt.rows[None, :-1], self.slots, self.slots, self.cache, capacity)
        self.controls, self.row = Controls.empty(1, "cpu"), prompt.rows[-1:]
        self.controls.penalty[:] = model.sampling.repetition_penalty
        self.heard = torch.zeros(1, model.facts.codes, dtype=torch.bool)

    def hear(self) -> tuple[Tensor, Tensor]:
        """The state [1, H] behind the next row, and its logits [1, V]."""
        position = torch.tensor([self.position])
        state = self.model.talker.step(self.row, position, self.slots, self.cache, self.cache.capacity)
        return state, self.model.talker.logits(state)

    def frame(self, state: Tensor, logits: Tensor, scores: list[Tensor]) -> Tensor | None:
        """All codes [1, G], or None at the end; `scores` collects the predictor's logits."""
        model, made = self.model, torch.tensor([self.made])
        table = model.predictor.inputs(model.embedder)[0]
        first, row = choose_first(logits, table, self.heard, self.slots, made, self.controls, model.facts, model.ops)
        if first == model.facts.end_code:
            return None

        def choose(group: int, rest: Tensor, table: Normed | None) -> tuple[Tensor, Normed | None]:
            scores.append(rest)
            return choose_rest(group, rest, table, made, self.controls, model.ops)

        return model.predictor.frame(state, first, row, model.embedder, choose)

    def go_on(self, codes: Tensor) -> None:
        text = self.prompt.feed
        self.row = self.model.embedder.frame(codes) + (text[self.made] if self.made < len(text) else self.prompt.pad)
        self.heard[0, codes[0, 0]] = True
        self.position, self.made = self.position + 1, self.made + 1


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_a_speech_from_its_text_to_its_sound(
    name: str, omni: SpeechModel, prompter: Callable[..., OmniPrompter]
) -> None:
    golden = omni_case(name)
    theirs = golden.tensors
    prompt = prompter(golden.meta["user_turn"]).prompt(Request(golden.meta["text"], Named(golden.meta["speaker"])))
    assert near(prompt.rows, theirs["rows"])
    assert near(prompt.feed, theirs["feed"])
    assert near(prompt.pad, theirs["pad"])

    alone, frames, states, logits, rest = Alone(omni, prompt), [], [], [], []
    while True:
        state, scores = alone.hear()
        states.append(state[0])
        logits.append(scores[0])
        codes = alone.frame(state, scores, rest) if len(frames) < MOST else None
        if codes is None:
            break
        frames.append(codes)
        alone.go_on(codes)
    assert torch.equal(torch.cat(frames), theirs["frames"].long())
    assert len(frames) == golden.meta["frames"]
    assert near(torch.stack(states), theirs["states"])
    assert near(torch.cat(rest[: omni.facts.groups - 1]), theirs["first_rest"])
    kept = len(theirs["logits"])
    assert not kept or near(torch.stack(logits)[:kept], theirs["logits"])
    sound = omni.codec(torch.cat(frames)[None])[0]
    assert len(sound) == golden.meta["samples"] == 1920 * len(frames) - 555
    assert near(sound[: len(theirs["sound"])], theirs["sound"])


def test_one_of_the_speeches_ends_by_itself() -> None:
    assert omni_case("say").meta["frames"] < MOST


@torch.no_grad()
def test_a_block_of_experts(omni: SpeechModel, omni_folder: Any) -> None:
    golden = omni_case("experts").tensors
    shape = omni.talker.shape.stack.experts
    block = Experts(48, shape)
    table = expert_names("talker.model.layers.1.mlp", shape)
    fill(block, table, Checkpoint.open(omni_folder), "cpu", torch.float32, unused=None)
    for _ in range(2):  # as it comes from the file, then folded
        assert near(mixture(golden["rows"], block.block()), golden["made"])
        assert near(torch.cat([mixture(row[None], block.block()) for row in golden["rows"]]), golden["made"])
        block.merge_shared()
