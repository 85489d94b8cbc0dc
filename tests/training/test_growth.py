"""A larger language side begins as the smaller one whose weights it gets, and what is new in it learns."""

from dataclasses import replace

import pytest
import torch
from training_kit import SENTENCES, learned_tokens

from omnitts_cli.training.growth import begin_languages, begin_tokens, grown
from omnitts_cli.training.ids import LANGUAGES, CodecIds
from omnitts_cli.training.more_tokens import with_more
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speech import TinySpeech

LARGER = {
    "hidden": 48,
    "inner": 64,
    "layers": 3,
    "heads": 6,
    "kv_heads": 3,
    "predictor_hidden": 24,
    "predictor_inner": 40,
    "predictor_layers": 2,
    "predictor_heads": 3,
}
OLD = {"heads": 4, "kv_heads": 2}


@pytest.fixture
def pair(small: Recipe) -> tuple[TinySpeech, TinySpeech]:
    torch.manual_seed(0)
    before, after = (replace(small, speech=replace(small.speech, **sizes)) for sizes in (OLD, LARGER))
    old, new = TinySpeech(before, learned_tokens()), TinySpeech(after, learned_tokens())
    with torch.no_grad():
        for weight in old.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    new.load_state_dict(grown(old, new))
    return old.eval(), new.eval()


def results(speech: TinySpeech) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 60, (2, 9), generator=draw)
    codes = torch.randint(0, 32, (2, 9, 3), generator=draw)
    rows = speech.text(ids) + speech.embedder.frame(codes)
    hidden = speech.talker(rows)
    scores = speech.predictor(hidden.flatten(0, 1), codes.flatten(0, 1), speech.embedder)
    mel = torch.randn(1, speech.speaker.shape.mel.bands, 90, generator=draw)
    return [speech.talker.logits(hidden), scores, hidden, speech.speaker(mel)]


def test_it_computes_the_same(pair: tuple[TinySpeech, TinySpeech]) -> None:
    for old, new in zip(*map(results, pair), strict=True):
        width = old.shape[-1]
        assert torch.allclose(new[..., :width], old, atol=2e-4), (old - new[..., :width]).abs().max()


def test_what_is_new_learns(pair: tuple[TinySpeech, TinySpeech]) -> None:
    """After two steps, no channel, head, unit or layer is without a gradient."""
    _, new = pair
    steps = torch.optim.SGD(new.parameters(), 0.1)
    for _ in range(2):
        logits, scores, *_ = results(new)
        steps.zero_grad()
        (logits.square().mean() + scores.square().mean()).backward()
        steps.step()
    for name, weight in new.talker.named_parameters():
        assert weight.grad is not None
        rows = weight.grad.flatten(1).abs().sum(1) if weight.ndim > 1 else weight.grad.abs()
        assert (rows > 0).all(), name


def test_a_model_of_the_same_sizes_stays(small: Recipe) -> None:
    old, new = TinySpeech(small, learned_tokens()), TinySpeech(small, learned_tokens())
    assert all(torch.equal(value, old.state_dict()[name]) for name, value in grown(old, new).items())


def test_new_tokens_and_languages_begin_as_what_is_known() -> None:
    before = learned_tokens()
    after = with_more(before, SENTENCES, ["ʎˈeɣa el ˌaʊtoβˈus."] * 3, 8)
    table = torch.randn(after.size, 4)
    kept = table.clone()
    begin_tokens(table, before, after)
    first, second = after.merges[len(before.merges)]
    old = [kept[after.vocabulary[part]] for part in (first, second)]
    assert torch.equal(table[after.vocabulary[first + second]], (old[0] + old[1]) / 2)
    assert torch.equal(table[: before.size], kept[: before.size])
    ids, controls = CodecIds.behind(32), torch.randn(32 + 1024, 4)
    begin_languages(controls, ids, {"english": ids.english})
    assert all(torch.equal(controls[ids.english + n], controls[ids.english]) for n in range(len(LANGUAGES)))
