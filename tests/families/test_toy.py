"""The toy: quick, repeatable, all kinds, audible, and it ends."""

import numpy as np
import pytest
import torch

from omnitts_cli.errors import VoiceError
from omnitts_cli.families.toy import toy
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request
from omnitts_cli.voices import Cloned, Designed, Named


@torch.no_grad()
def chance_of_ending(model: SpeechModel, request: Request) -> float:
    """What the end code would get in the first frame if nothing forbade it, among what may be drawn."""
    prompt, talker = model.prompter.prompt(request), model.talker
    rows = len(prompt.rows)
    cache = talker.cache(1, rows)
    zero = torch.zeros(1, dtype=torch.int64)
    talker.prefill(prompt.rows[None, :-1], zero, zero, cache, rows)
    hidden = talker.step(prompt.rows[-1:], zero + rows - 1, zero, cache, rows)[0]
    allowed = [*range(model.facts.codes), model.facts.end_code]
    return float(talker.logits(hidden)[allowed].softmax(0)[-1])


def test_the_same_seed_is_the_same_model() -> None:
    rows = [toy(seed=seed).prompter.prompt(Request("hello", Named("ann"))).rows for seed in (3, 3, 4)]
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])


def test_it_leaves_the_random_numbers_of_others_alone() -> None:
    before = torch.random.get_rng_state()
    toy()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_every_kind_of_voice_has_a_prompt_and_a_fair_chance_to_end() -> None:
    model = toy()
    sound = 0.1 * np.random.default_rng(0).standard_normal(8000).astype(np.float32)
    heard = Cloned(model.cloner.embedding(sound), model.cloner.codes(sound), "hello")
    assert heard.codes.shape == (13, 4)
    for voice in (Named("ann"), Named("eric"), Designed("deep"), Cloned(heard.embedding), heard):
        chances = [chance_of_ending(model, Request(text, voice)) for text in ("hello", "good morning", "one two three")]
        assert 0.001 < np.mean(chances) < 0.5


def test_only_the_kinds_asked_for() -> None:
    model = toy(kinds=["named"])
    assert model.kinds == {"named"} and model.cloner is None
    with pytest.raises(VoiceError):
        model.prompter.prompt(Request("hi", Designed()))


@pytest.mark.parametrize("sizes", [{"groups": 2}, {"groups": 8, "codes": 16}, {"hidden": 24}, {"predictor_hidden": 32}])
def test_other_sizes(sizes: dict[str, int]) -> None:
    model = toy(**sizes)
    codes = torch.randint(0, model.facts.codes, (1, 20, model.facts.groups), generator=torch.Generator().manual_seed(0))
    sound = model.codec(codes)
    assert sound.shape == (1, 20 * model.facts.samples_per_frame)
    assert 0.01 < sound.std() < 0.5 and sound.abs().max() < 1
