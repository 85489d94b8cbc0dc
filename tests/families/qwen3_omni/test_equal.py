"""The whole path against the official library: prompt rows, states, logits, greedy frames run free, and their sound."""

import pytest
import torch
from golden_set import omni_case, omni_folder
from greedy import Alone
from tiny_models import near, with_turn

from omnitts_cli.families.qwen3_omni.names import expert_names
from omnitts_cli.kernels.plain_experts import mixture
from omnitts_cli.models.experts import Experts
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request
from omnitts_cli.voices import Named
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill

CASES = ("say", "say_short", "say_after_words")
MOST = 25


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_a_speech_from_its_text_to_its_sound(name: str, omni: SpeechModel) -> None:
    golden = omni_case(name)
    theirs = golden.tensors
    prompt = with_turn(omni, golden.meta["user_turn"]).prompt(
        Request(golden.meta["text"], Named(golden.meta["speaker"]))
    )
    assert near(prompt.rows, theirs["rows"])
    assert near(prompt.feed, theirs["feed"])
    assert near(prompt.pad, theirs["pad"])

    alone, frames, states, logits = Alone(omni, prompt, omni.sampling.repetition_penalty, MOST), [], [], []
    while True:
        scores = alone.logits()
        states.append(alone.hidden[0])
        logits.append(scores[0])
        codes = alone.frame(scores) if len(frames) < MOST else None
        if codes is None:
            break
        frames.append(codes)
        alone.go_on(codes)
    assert torch.equal(torch.cat(frames), theirs["frames"].long())
    assert len(frames) == golden.meta["frames"]
    assert near(torch.stack(states), theirs["states"])
    assert near(torch.cat(alone.rest[: omni.facts.groups - 1]), theirs["first_rest"])
    kept = len(theirs["logits"])
    assert not kept or near(torch.stack(logits)[:kept], theirs["logits"])
    sound = omni.codec(torch.cat(frames)[None])[0]
    assert len(sound) == golden.meta["samples"] == 1920 * len(frames) - 555
    assert near(sound[: len(theirs["sound"])], theirs["sound"])


def test_one_of_the_speeches_ends_by_itself() -> None:
    assert omni_case("say").meta["frames"] < MOST


@torch.no_grad()
def test_a_block_of_experts(omni: SpeechModel) -> None:
    golden = omni_case("experts").tensors
    shape = omni.talker.shape.stack.experts
    block = Experts(48, shape)
    table = expert_names("talker.model.layers.1.mlp", shape)
    fill(block, table, Checkpoint.open(omni_folder()), "cpu", torch.float32, unused=None)
    for _ in range(2):  # as it comes from the file, then folded
        assert near(mixture(golden["rows"], block.block()), golden["made"])
        assert near(torch.cat([mixture(row[None], block.block()) for row in golden["rows"]]), golden["made"])
        block.merge_shared()
