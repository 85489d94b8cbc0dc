"""The fused products equal their plain versions, computed in float64."""

import pytest
import tables
import torch
from frame_table import close
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Normed

pytestmark = pytest.mark.gpu
ROWS = [1, 2, 9, 64, 70, 130]
SIZES = [(96, 64), (128, 256), (64, 3072), (80, 6144), (1024, 2048)]
EPS = 1e-6


@pytest.fixture(params=[(rows, *size) for rows in ROWS for size in SIZES], ids=str)
def case(request: pytest.FixtureRequest, where: torch.device, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """x, norm, weight, bias, residual."""
    rows, outputs, inputs = request.param
    made = torch.Generator().manual_seed(rows * outputs + inputs)
    x = torch.randn(rows, inputs, generator=made)
    norm = torch.rand(inputs, generator=made) + 0.5
    weight = torch.randn(outputs, inputs, generator=made) * inputs**-0.5
    bias, residual = torch.randn(outputs, generator=made), torch.randn(rows, outputs, generator=made)
    return tuple(t.to(where, dtype) for t in (x, norm, weight, bias, residual))


def wide(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(t.double() for t in tensors)


def exact_norm(x: Tensor, norm: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * norm


def test_linear_is_plain_linear(case: tuple[Tensor, ...]) -> None:
    linear = tables.card().linear

    x, _, weight, bias, _ = case
    close(linear(x, weight), plain.linear(*wide(x, weight)))
    close(linear(x, weight, bias), plain.linear(*wide(x, weight, bias)))


def test_norm_linear_is_norm_then_linear(case: tuple[Tensor, ...]) -> None:
    norm_linear = tables.card().norm_linear

    x, norm, weight, _, _ = case
    x64, norm64, weight64 = wide(x, norm, weight)
    close(norm_linear(Normed(x, norm, EPS), weight), exact_norm(x64, norm64) @ weight64.T)


def test_norm_swiglu_gates_the_first_half(case: tuple[Tensor, ...]) -> None:
    norm_swiglu = tables.card().norm_swiglu

    x, norm, weight, _, _ = case
    x64, norm64, weight64 = wide(x, norm, weight)
    gate, up = (exact_norm(x64, norm64) @ weight64.T).chunk(2, -1)
    close(norm_swiglu(Normed(x, norm, EPS), weight), torch.nn.functional.silu(gate) * up)


def test_linear_add_adds_to_its_own_row(case: tuple[Tensor, ...]) -> None:
    """And the next product reads its norm, whether or not that has been computed already."""
    from omnitts_cli.kernels.triton.norms import norm

    linear_add = tables.card().linear_add

    x, _, weight, bias, residual = case
    after = bias.abs() + 0.5
    made = linear_add(x, weight, residual, after, EPS)
    truth = plain.linear_add(*wide(x, weight, residual, after), EPS)
    close(made.rows, truth.rows)
    close(norm(made), exact_norm(truth.rows, truth.weight))
