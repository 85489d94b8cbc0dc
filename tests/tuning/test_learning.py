"""AdamW with moments in bfloat16 is AdamW; only what stands between two steps is rounded."""

import pytest
import torch
from torch import nn

from omnitts_cli.errors import OmniError
from omnitts_cli.tuning.learning import HalfMoments, check_finite

BETAS, DECAY, RATE = (0.9, 0.95), 0.01, torch.tensor(1e-3)


def weights() -> list[nn.Parameter]:
    torch.manual_seed(3)
    return [nn.Parameter(torch.randn(shape)) for shape in ((7, 30), (64,), (3, 5, 11))]


def learned(kept: torch.dtype | None, together: int = 50, steps: int = 60) -> list[torch.Tensor]:
    """How far the weights have moved after noisy gradients of very different sizes. `kept`: None is AdamW itself."""
    mine, chance = weights(), torch.Generator().manual_seed(4)
    if kept is None:
        optimiser: torch.optim.Optimizer = torch.optim.AdamW(mine, lr=RATE, betas=BETAS, weight_decay=DECAY)
    else:
        optimiser = HalfMoments(mine, RATE, BETAS, DECAY, False, kept, together)
    for step in range(steps):
        for one in mine:
            size = 10.0 ** (torch.arange(one.numel()).view(one.shape) % 7 - 5)
            one.grad = size * (0.3 + torch.randn(one.shape, generator=chance) * (1 + step % 5))
        optimiser.step()
    return [one.detach() - start for one, start in zip(mine, weights(), strict=True)]


def test_it_is_adamw_where_nothing_is_rounded() -> None:
    """In pieces that end inside a row, too."""
    for mine, its in zip(learned(torch.float32), learned(None), strict=True):
        assert torch.equal(mine, its)


def test_rounded_moments_move_weights_by_nearly_the_same() -> None:
    for mine, its in zip(learned(torch.bfloat16), learned(None), strict=True):
        assert (mine - its).norm() < 0.01 * its.norm()


def test_moments_follow_gradients_that_become_small() -> None:
    """A second moment that stood still would keep steps short."""
    one, other = nn.Parameter(torch.zeros(64)), nn.Parameter(torch.zeros(64))
    half, full = HalfMoments([one], RATE, BETAS, 0.0, False), torch.optim.AdamW([other], lr=RATE, betas=BETAS)
    for step in range(300):
        for weight, optimiser in ((one, half), (other, full)):
            weight.grad = torch.full((64,), 1.0 if step < 20 else 1e-4)
            optimiser.step()
    moments = [optimiser.state[weight]["exp_avg_sq"].float() for weight, optimiser in ((one, half), (other, full))]
    assert torch.allclose(*moments, rtol=0.03) and one.grad is not None


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_losses_that_are_not_numbers_are_named(wrong: float) -> None:
    check_finite({"first": 1.0, "rest": 2.0}, 500)
    with pytest.raises(OmniError, match=r"500.*rest"):
        check_finite({"first": 1.0, "rest": wrong}, 500)
