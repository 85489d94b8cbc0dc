"""The loss, its gradients and steps of the optimiser are those of the official modules; wrong labels are detected."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import tune_kit
from torch import Tensor, nn
from tune_kit import Case, Golden
from tune_recipe import ADAM, CLIP, SIZES, STEPS

from omnitts_cli.errors import InputError
from omnitts_cli.families.common.parts import stored
from omnitts_cli.tuning import loss
from omnitts_cli.tuning.loss import (
    REST_WEIGHT,
    BatchShape,
    PaddedBatch,
    SpokenText,
    losses,
    refuse_misfits,
    rows_of,
    shifted_losses,
)

CLOSE = 1e-5


def total(made: loss.LossSums, batch: PaddedBatch) -> Tensor:
    return made.first / batch.count + REST_WEIGHT * (made.rest / made.predicted).mean()


@pytest.fixture(scope="module", params=SIZES)
def size(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def as_stored(case: Case, of: str) -> dict[str, Tensor]:
    """Our gradients ("grad") or weights ("after") under the names of the checkpoint."""
    copy = nn.Module()
    for name, weight in case.language.named_parameters():
        value = (weight.grad if weight.grad is not None else torch.zeros_like(weight)) if of == "grad" else weight.data
        owner = copy
        *path, leaf = name.split(".")
        for step in path:
            if not hasattr(owner, step):
                owner.add_module(step, nn.Module())
            owner = owner.get_submodule(step)
        owner.register_parameter(leaf, nn.Parameter(value))
    return {f"{of}.{name}": one for name, one in stored(copy, case.names).items()}


def test_loss_and_every_gradient_are_the_official_ones(size: str) -> None:
    case, golden = tune_kit.case(size), Golden.of(size)
    case.language.requires_grad_(True)
    batch = case.batch()
    made = losses(case.language, batch)
    whole = total(made, batch)
    whole.backward()
    assert golden.error("loss", whole) < CLOSE
    assert golden.error("first", made.first / batch.count) < CLOSE
    assert golden.error("rest", made.rest / made.predicted) < CLOSE
    for number, one in enumerate(case.examples):
        assert golden.error(f"hidden.{number}", made.hidden[number, : one.length]) < CLOSE
    found = as_stored(case, "grad")
    wanted = {name for name in (*golden.names, *golden.tensors) if name.startswith("grad.")}
    assert found.keys() == wanted and len(wanted) > 80
    assert max(golden.error(name, one) for name, one in found.items()) < CLOSE


def test_five_steps_of_the_optimiser_are_the_official_ones(size: str) -> None:
    case, golden = tune_kit.case(size), Golden.of(size)
    learned = [*case.language.requires_grad_(True).parameters()]
    # joined weights change nothing: AdamW treats every number alone, and the norm is that of all gradients
    optimiser, found, batch = torch.optim.AdamW(learned, **ADAM), [], case.batch()
    for _ in range(STEPS):
        optimiser.zero_grad()
        whole = total(losses(case.language, batch), batch)
        whole.backward()
        nn.utils.clip_grad_norm_(learned, CLIP)
        optimiser.step()
        found.append(whole.detach())
    assert golden.error("losses", torch.stack(found)) < CLOSE
    assert max(golden.error(name, one) for name, one in as_stored(case, "after").items()) < CLOSE


NOISE = 10  # times the difference that the order of sums makes: a gradient above it is known


def test_another_order_of_sums_moves_only_numbers_whose_gradient_is_noise(size: str) -> None:
    """Why steps are compared by norm: AdamW turns any gradient into a whole step, also one that is rounding noise.

    With whole golden tensors (`make_tune.py` without --trim), every number above the noise is the official one."""

    def stepped(order: list[int]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        case = tune_kit.case(size)
        learned = [*case.language.requires_grad_(True).parameters()]
        optimiser, batch = torch.optim.AdamW(learned, **ADAM), case.batch([case.examples[one] for one in order])
        gradients = []
        for _ in range(STEPS):
            optimiser.zero_grad()
            total(losses(case.language, batch), batch).backward()
            nn.utils.clip_grad_norm_(learned, CLIP)
            gradients.append({name: one.clone() for name, one in as_stored(case, "grad").items()})
            optimiser.step()
        together = {name: torch.stack([one[name] for one in gradients]) for name in gradients[0]}
        return as_stored(case, "after"), together

    (mine, own), (other, its), golden = stepped([0, 1, 2]), stepped([2, 1, 0]), Golden.of(size)
    known = with_gradient = 0
    for name, one in mine.items():
        first, two = own[name.replace("after.", "grad.")], other[name]
        sure = first.abs().amin(0) > NOISE * (first - its[name.replace("after.", "grad.")]).abs().max()
        theirs = [two] if name in golden.names else [two, golden.tensors[name]]
        for wanted, most in zip(theirs, (5e-6, CLOSE), strict=False):
            error = (one - wanted).abs() / wanted.abs().max()
            assert not sure.any() or error[sure].max() < most
            assert (one - wanted).norm() < CLOSE * wanted.norm()
        known, with_gradient = known + int(sure.sum()), with_gradient + int((first.abs().amax(0) > 0).sum())
    assert known > 0.95 * with_gradient


def test_the_rows_are_those_of_generation(size: str) -> None:
    case = tune_kit.case(size)
    made = rows_of(case.language, case.batch())
    prompter = tune_kit.prompter(case)
    for number, one in enumerate(case.examples):
        rows = prompter.prompts([one.draft])[0].rows  # computed in blocks of another size
        assert torch.allclose(made[number, : one.start], rows, rtol=0, atol=1e-6)


def test_padding_and_parts_of_a_step_change_nothing() -> None:
    case = tune_kit.case("small")
    whole = losses(case.language, case.batch())
    parts = [losses(case.language, case.batch([one])) for one in case.examples]
    assert torch.allclose(whole.first, torch.stack([one.first for one in parts]).sum(), rtol=1e-6)
    assert torch.allclose(whole.rest, torch.stack([one.rest for one in parts]).sum(0), rtol=1e-6)


def test_what_fills_a_shape_changes_nothing() -> None:
    case = tune_kit.case("small")
    pad, end, chosen = case.config.text.pad, case.config.control.end, np.array([0, 3, 20])
    plain = PaddedBatch.of(case.examples, pad, end, chosen)
    shaped = PaddedBatch.of(case.examples, pad, end, chosen, BatchShape(5, 64, 96, 8))
    assert shaped.labels.shape == (5, 64) and len(shaped.chosen) == 8 and len(shaped.known) == 96
    one, other = losses(case.language, plain), losses(case.language, shaped)
    assert torch.allclose(one.first, other.first, rtol=1e-6) and torch.allclose(one.rest, other.rest, rtol=1e-6)
    assert plain.count == shaped.count and one.right == other.right


def test_each_speaker_has_a_vector() -> None:
    case = tune_kit.case("small")
    two = [replace(one, speaker=number) for number, one in enumerate(case.examples[:2])]
    batch = case.batch(two)
    vectors = torch.stack([batch.vectors[0], batch.vectors[0] + 1])
    apart = [losses(case.language, case.batch([two[n]]), vectors).first for n in range(2)]
    assert torch.allclose(losses(case.language, batch, vectors).first, sum(apart), rtol=1e-6)
    assert not torch.allclose(losses(case.language, batch).first, sum(apart), rtol=1e-6)


def test_some_frames_can_be_chosen_for_the_other_groups() -> None:
    case = tune_kit.case("small")
    batch, chosen = case.batch(), torch.tensor([0, 3, 20])
    some, every = losses(case.language, replace(batch, chosen=chosen)), losses(case.language, batch)
    rest = torch.zeros_like(some.rest)
    for place in chosen:
        rest += losses(case.language, replace(batch, chosen=place[None])).rest
    assert some.predicted == 3 and every.predicted == len(batch.codes)
    assert torch.allclose(some.rest, rest, rtol=1e-5)


def test_streamed_text_stands_beside_the_frames() -> None:
    case = tune_kit.case("small")
    draft = tune_kit.prompter(case).draft(tune_kit.request(case, "the quick brown fox", "streamed"))
    batch = case.batch([SpokenText(draft, case.examples[0].codes)])
    begin, frames = len(draft.text), len(case.examples[0].codes)
    beside = [*draft.feed, *[case.config.text.pad] * frames][:frames]
    text = batch.known[batch.text[:-1]].view(batch.labels.shape)
    assert text[0, begin:].tolist() == beside
    assert batch.labels[0, begin - 1] == case.examples[0].codes[0, 0] and batch.labels[0, -1] == case.config.control.end


def test_a_learned_vector_takes_the_place_of_the_speakers_own() -> None:
    case = tune_kit.case("small")
    batch = case.batch()
    vector = torch.zeros(batch.vectors.shape[1], requires_grad=True)
    losses(case.language, batch, vector[None]).first.backward()
    assert vector.grad is not None and vector.grad.abs().min() > 0
    same = losses(case.language, batch, batch.vectors[:1])
    assert torch.equal(same.first, losses(case.language, batch).first)


def knowing(case: Case) -> tuple[Case, PaddedBatch]:
    """A model that has learned its examples, so that it can tell the places of their labels apart."""
    batch, learned = case.batch(), [*case.language.requires_grad_(True).parameters()]
    optimiser = torch.optim.AdamW(learned, lr=3e-3)
    for _ in range(12):
        optimiser.zero_grad()
        total(losses(case.language, batch), batch).backward()
        optimiser.step()
    return case, batch


def test_labels_at_a_wrong_place_are_refused() -> None:
    case, batch = knowing(tune_kit.case("small"))
    found = shifted_losses(case.language, batch)
    assert found[1] < min(found[0], found[2])
    refuse_misfits(case.language, batch)
    published = [replace(one, codes=np.roll(one.codes, -1, 0)) for one in case.examples]  # position p learns p + 2
    shifted = replace(batch, labels=case.batch(published).labels)
    with pytest.raises(InputError) as caught:
        refuse_misfits(case.language, shifted)
    assert caught.value.hint and caught.value.cause
