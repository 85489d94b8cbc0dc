"""Captured steps are those that run at once; they fit into less memory when it runs out."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from recording_device import RecordingDevice
from tune_kit import PLAN
from tune_kit import trainer as made

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import Notice
from omnitts_cli.tuning import trainer
from omnitts_cli.tuning.room import WAYS, Way

ONE_CLIP = replace(PLAN, dropout=0.0, predicted=8, step_s=0.01)


@pytest.mark.parametrize(("full", "way"), [(False, WAYS[0]), *((True, way) for way in WAYS)])
def test_captured_steps_are_those_that_run_at_once(full: bool, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "half", lambda device: nullcontext())
    plan = replace(ONE_CLIP, full=full, rate=1e-3 if full else PLAN.rate, way=way)
    one, device = made(plan), RecordingDevice()
    other = made(plan, device)
    order = [*other._steps_of(0), *other._steps_of(1)]
    wanted = [one.learn(numbers, step) for step, numbers in enumerate(order)]
    with other.steps.working():
        found = [
            other.learn(numbers, step, following)
            for step, (numbers, following) in enumerate(zip(order, [*order[1:], []], strict=True))
        ]
    assert np.allclose(found, wanted, rtol=1e-5) and wanted[0] != wanted[-1]
    assert device.graphs == 3 and device.replays == 2 * len(order)  # two lengths and the update
    for mine, its in zip(one.learned.values(), other.learned.values(), strict=True):
        # a moment next to the middle between two numbers of bfloat16 may be rounded either way
        assert torch.allclose(mine, its, atol=1e-4 if way.half_moments else 1e-5)


@pytest.mark.parametrize("full", [False, True])
def test_products_of_captured_steps_are_in_half_precision(full: bool) -> None:
    one = made(replace(ONE_CLIP, full=full, rate=1e-3 if full else PLAN.rate), RecordingDevice(), half=not full)
    assert {weight.dtype for weight in one.learned.values()} == {torch.float32}
    with one.steps.working():
        losses = [one.learn([number], step)[0] for step, number in enumerate([0, 1, 2] * 4)]
    assert np.mean(losses[-3:]) < np.mean(losses[:3]) - 0.1


def test_clips_of_a_captured_step_have_one_length() -> None:
    one = made(replace(PLAN, step_s=5.0), RecordingDevice())
    steps = one._steps_of(0)
    assert sorted(number for numbers in steps for number in numbers) == list(range(len(one.clips)))
    assert all(len({one._lengths[number] for number in numbers}) == 1 for numbers in steps)
    assert steps != one._steps_of(1)


def learned_in(way: Way) -> tuple[list[tuple[float, float]], list[torch.Tensor]]:
    """The losses of a few steps of all weights, and how far each weight has moved."""
    one = made(replace(PLAN, full=True, rate=1e-3, way=way))
    before = [weight.detach().clone() for weight in one.learned.values()]
    found = [one.learn(numbers, step) for step, numbers in enumerate([*one._steps_of(0), *one._steps_of(1)])]
    return found, [weight.detach() - start for weight, start in zip(one.learned.values(), before, strict=True)]


def test_layers_that_are_calculated_twice_change_nothing() -> None:
    (losses, moved), (wanted, its) = learned_in(Way(recomputes=True)), learned_in(Way())
    assert losses == wanted and len(losses) > 4
    assert all(torch.equal(*pair) for pair in zip(moved, its, strict=True))


def test_moments_in_half_precision_change_little() -> None:
    """Losses by a thousandth, and what is learned by two hundredths of itself."""
    (losses, moved), (wanted, its) = learned_in(WAYS[-1]), learned_in(Way())
    assert losses != wanted and np.allclose(losses, wanted, rtol=1e-3)
    far = [torch.cat([one.flatten() for one in many]) for many in (moved, its)]
    assert (far[0] - far[1]).norm() < 0.02 * far[1].norm()


class SmallDevice(CPUDevice):
    """Its memory runs out, in the words of a card."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        return "out of memory" in str(error)


def test_memory_that_runs_out_makes_parts_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(PLAN, dropout=0.0, step_s=100.0)
    one, other = made(plan), made(plan, SmallDevice(1))
    numbers, notices, real = one._steps_of(0)[0], list[Notice](), trainer.losses

    def losses(language: object, batch: trainer.PaddedBatch, *rest: object) -> object:
        if batch.labels.numel() > 110:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return real(language, batch, *rest)  # type: ignore[arg-type]

    wanted = one.learn(numbers, 0)
    other.most = 400
    monkeypatch.setattr(trainer, "losses", losses)
    assert other.learn(numbers, 0, tell=notices.append) == pytest.approx(wanted, rel=1e-5)
    assert other.most == 100 and len(notices) == 2 and notices[0].cause
    for mine, its in zip(one.learned.values(), other.learned.values(), strict=True):
        assert torch.allclose(mine, its, atol=1e-4)
    with pytest.raises(RuntimeError):
        monkeypatch.setattr(
            trainer, "losses", lambda *given: losses(given[0], replace(given[1], labels=torch.zeros(999)))
        )
        other.learn(numbers, 1)
