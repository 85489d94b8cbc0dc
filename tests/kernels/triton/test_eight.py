"""Products with matrices in 8 bits equal those of the floats that they stand for, in float64."""

import pytest
import tables
import torch
from frame_table import close
from torch import Tensor

from omnitts_cli.kernels import plain, plain_eight
from omnitts_cli.kernels.ops import GROUP, SMALL_GROUP, Normed

pytestmark = pytest.mark.gpu
CASES = [(1, 96, 64), (2, 128, 1536), (1, 42, 96), (3, 42, 96), (17, 80, 512), (70, 128, 256)]
"""Rows, outputs, inputs: what one program, and what several programs have."""
EPS = 1e-6
Case = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


@pytest.fixture(params=[GROUP, SMALL_GROUP])
def group(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest, where: torch.device, dtype: torch.dtype, group: int) -> Case:
    """x, norm, matrix, bias, residual."""
    rows, outputs, inputs = request.param
    made = torch.Generator().manual_seed(rows * outputs + inputs)
    x, norm = torch.randn(rows, inputs, generator=made), torch.rand(inputs, generator=made) + 0.5
    weight = torch.randn(outputs, inputs, generator=made) * inputs**-0.5
    bias, residual = torch.randn(outputs, generator=made), torch.randn(rows, outputs, generator=made)
    x, norm, bias, residual = (one.to(where, dtype) for one in (x, norm, bias, residual))
    return x, norm, plain_eight.pack(weight.to(where), group), bias, residual


def exact_norm(x: Tensor, norm: Tensor) -> Tensor:
    wide = x.double()
    return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS) * norm.double()


def test_products_with_and_without_a_bias(case: Case) -> None:
    linear, (x, _, matrix, bias, _) = tables.card().linear, case
    truth = x.double() @ plain_eight.floats(matrix, x.shape[-1]).double().T
    close(linear(x, matrix), truth)
    close(linear(x, matrix, bias), truth + bias.double())


def test_products_after_a_norm(case: Case) -> None:
    x, norm, matrix, _, _ = case
    truth = exact_norm(x, norm) @ plain_eight.floats(matrix, x.shape[-1]).double().T
    close(tables.card().norm_linear(Normed(x, norm, EPS), matrix), truth)
    gate, up = truth.chunk(2, -1)
    close(tables.card().norm_swiglu(Normed(x, norm, EPS), matrix), torch.nn.functional.silu(gate) * up)


def test_products_that_are_added_to_a_residual(case: Case) -> None:
    x, _, matrix, bias, residual = case
    made = tables.card().linear_add(x, matrix, residual, bias, EPS)
    truth = plain.linear_add(x.double(), plain_eight.floats(matrix, x.shape[-1]).double(), residual.double(), bias, EPS)
    close(made.rows, truth.rows)


def test_rows_of_a_frame_lie_apart(where: torch.device, dtype: torch.dtype) -> None:
    """The last of two rows of each request."""
    x = torch.randn(2, 2, 64, generator=torch.Generator().manual_seed(1)).to(where, dtype)
    norm, matrix = torch.ones(64, dtype=dtype, device=where), plain_eight.pack(torch.randn(32, 64).to(where))
    found = tables.card().norm_linear(Normed(x, norm, EPS).last(), matrix)
    close(found, exact_norm(x[:, -1], norm) @ plain_eight.floats(matrix, x.shape[-1]).double().T)
