"""An adapter learns as the official modules with the same adapter do; what is merged says the same."""

import pytest
import torch
import tune_kit
from torch import nn
from tune_kit import Golden
from tune_recipe import ADAM, CLIP, PLANS, SIZES, STEPS

from omnitts_cli.tuning.learned import LearnedAdapter, fresh, places_in
from omnitts_cli.tuning.loss import REST_WEIGHT, losses

CLOSE = 1e-5


@pytest.mark.parametrize("which", PLANS)
@pytest.mark.parametrize("size", SIZES)
def test_an_adapter_learns_as_the_official_modules_do(size: str, which: str) -> None:
    case, golden = tune_kit.case(size), Golden.of(size)
    adapter = LearnedAdapter(case.language, places_in(case.language, case.names), tune_kit.golden_adapter(size, which))
    learned, batch, found = adapter.parameters, case.batch(), []
    optimiser = torch.optim.AdamW(list(learned.values()), **ADAM)
    for step in range(STEPS):
        optimiser.zero_grad()
        made = losses(case.language, batch)
        whole = made.first / batch.count + REST_WEIGHT * (made.rest / made.predicted).mean()
        whole.backward()
        if step == 0:
            errors = [
                golden.error(f"{which}.grad.{name}", one.grad) for name, one in learned.items() if one.grad is not None
            ]
            assert len(errors) == len(learned) and max(errors) < CLOSE
        nn.utils.clip_grad_norm_(list(learned.values()), CLIP)
        optimiser.step()
        found.append(whole.detach())
    assert golden.error(f"{which}.losses", torch.stack(found)) < CLOSE
    assert max(golden.error(f"{which}.after.{name}", one) for name, one in learned.items()) < CLOSE


def test_a_fresh_adapter_changes_nothing_until_it_has_learned() -> None:
    case = tune_kit.case("small")
    before = losses(case.language, case.batch())
    places = places_in(case.language, case.names)
    adapter = LearnedAdapter(case.language, places, fresh(case.language, places, 4, 8.0, seed=1))
    after = losses(case.language, case.batch())
    assert torch.equal(before.hidden, after.hidden)
    after.first.backward()
    grads = {name: one.grad for name, one in adapter.parameters.items()}
    in_talker = {name for name in grads if name.startswith("talker.model.")}
    assert all(grads[name] is not None and grads[name].abs().max() > 0 for name in in_talker if name.endswith("B"))
    assert {pair.a.shape[0] for pair in adapter.adapter().pairs.values()} == {4}


def test_only_the_named_stacks_have_places() -> None:
    case = tune_kit.case("small")
    talker, both = places_in(case.language, case.names, ["talker"]), places_in(case.language, case.names)
    assert set(talker) < set(both) and all(name.startswith("talker.model.layers.") for name in talker)
    assert {name.rpartition(".")[2] for name in talker} == {
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    }  # fmt: skip


def test_dropout_hides_a_part_of_the_inputs() -> None:
    case = tune_kit.case("small")
    adapter = LearnedAdapter(
        case.language, places_in(case.language, case.names), tune_kit.golden_adapter("small", "one")
    )
    plain = losses(case.language, case.batch()).first
    adapter.dropout = 0.5
    assert not torch.equal(losses(case.language, case.batch()).first, plain)
    adapter.dropout = 0.0
    assert torch.equal(losses(case.language, case.batch()).first, plain)


def test_a_copy_of_what_was_learned_does_not_change_with_it() -> None:
    case = tune_kit.case("small")
    given = tune_kit.golden_adapter("small", "two")
    adapter = LearnedAdapter(case.language, places_in(case.language, case.names), given)
    kept = adapter.adapter()
    assert kept.sha256 == given.sha256
    with torch.no_grad():
        next(iter(adapter.parameters.values())).add_(1)
    assert kept.sha256 == given.sha256 != adapter.adapter().sha256
