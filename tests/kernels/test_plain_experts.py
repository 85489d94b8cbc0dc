"""Plain experts: every form gives the same. What a block of them means: families/qwen3_omni/test_equal.py."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.kernels.ops import ExpertBlock
from omnitts_cli.kernels.plain_experts import everyone, gathered, grouped, route

HIDDEN, INNER, COUNT = 32, 24, 8
BOUND = {torch.float32: 2e-6, torch.bfloat16: 2e-2}


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def block(dtype: torch.dtype, chosen: int = 3) -> ExpertBlock:
    shapes = (COUNT, HIDDEN), (COUNT, 2 * INNER, HIDDEN), (COUNT, HIDDEN, INNER)
    weights = ((random(*shape, seed=seed) * 0.2).to(dtype) for seed, shape in enumerate(shapes, 1))
    return ExpertBlock(*weights, COUNT, chosen, True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 2, 9, 64])
def test_all_forms_are_equal(count: int, dtype: torch.dtype) -> None:
    at, x = block(dtype), random(count, HIDDEN, seed=count).to(dtype)
    weights, chosen = route(x, at)
    forms = [form(x, weights.to(dtype), chosen, at.gate_up, at.down) for form in (gathered, grouped, everyone)]
    for other in forms[1:]:
        assert (other - forms[0]).abs().max() <= BOUND[dtype] * forms[0].abs().max()


def test_routing_is_float32_whatever_the_rows_are() -> None:
    """Two experts that bfloat16 scores cannot tell apart: the one with the larger score is chosen all the same."""
    at = block(torch.bfloat16, chosen=1)
    router = torch.zeros_like(at.router)
    router[2, :2], router[6, :2] = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 2**-10])
    weights, chosen = route(torch.full((1, HIDDEN), 4.0, dtype=torch.bfloat16), replace(at, router=router))
    assert chosen.item() == 6 and weights.dtype == torch.float32


@pytest.mark.parametrize("hidden, inner", [(32, 20), (36, 24)])
def test_widths_that_no_grouped_product_takes(hidden: int, inner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a card, a grouped product's rows are multiples of 16 bytes."""
    gate_up, down = random(COUNT, 2 * inner, hidden, seed=2).bfloat16(), random(COUNT, hidden, inner, seed=3).bfloat16()
    x, weights = random(9, hidden, seed=9).bfloat16(), torch.full((9, 2), 0.5, dtype=torch.bfloat16)
    chosen = torch.tensor([[1, 6]]).expand(9, -1)

    def refuse(*given: Tensor, **more: Tensor) -> Tensor:
        raise RuntimeError("strides should be multiple of 16 bytes")

    monkeypatch.setattr(F, "grouped_mm", refuse)
    made, wanted = (form(x, weights, chosen, gate_up, down) for form in (grouped, gathered))
    assert (made - wanted).abs().max() <= BOUND[torch.bfloat16] * wanted.abs().max()
