"""Matrices in 8 bits on a card: the numbers of the CPU's library, and products of what they stand for."""

import pytest
import torch

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.kernels import plain, plain_eight
from omnitts_cli.kernels.cpu import library, quantised
from omnitts_cli.kernels.ops import GROUP, SMALL_GROUP, Normed


def weight(*shape: int) -> torch.Tensor:
    """With groups of zeros, of very small and of large numbers."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    made[..., 0, :32] = 0
    made[..., 1, 32:64] *= 1e-7
    made[..., 2, :32] *= 1e4
    return made


@pytest.mark.parametrize("group", [GROUP, SMALL_GROUP])
def test_a_matrix_keeps_its_weights_to_half_a_step(group: int) -> None:
    whole = weight(40, 96)
    packed = plain_eight.pack(whole, group)
    numbers, scales = plain_eight.parts(packed, 96)
    step = scales.float().repeat_interleave(group, 1)
    error = (plain_eight.floats(packed, 96) - whole).abs()
    rounded = whole.abs() * 2**-10  # of the scale, which clips the largest number of a group
    assert (
        numbers.shape == whole.shape and scales.shape == (40, 96 // group) and plain_eight.group_of(packed, 96) == group
    )
    assert bool((error <= 0.51 * step + rounded + 1e-6).all())


def test_several_matrices_are_packed_one_by_one() -> None:
    whole = weight(3, 8, 64)
    packed = plain_eight.pack(whole)
    assert packed.shape == (3, 8, 68)
    for one, matrix in zip(whole, packed, strict=True):
        assert torch.equal(matrix, plain_eight.pack(one))


def test_they_are_the_numbers_of_the_compiled_library() -> None:
    """Products with rows that the library's own 8 bits hold exactly."""
    CPUDevice(1)
    if "c8" not in library.handles():
        pytest.skip("the library of the CPU was not compiled")
    native, whole = library.handles()["c8"], weight(64, 96)
    matrix = torch.zeros(quantised.size_bytes(64, 96), dtype=torch.uint8)
    quantised.make(native, whole, matrix)
    rows = 127 * torch.eye(96)
    theirs = torch.as_tensor(quantised.multiply(native, rows, matrix)) / 127
    torch.testing.assert_close(plain_eight.floats(plain_eight.pack(whole), 96).T, theirs, rtol=1e-6, atol=0)


def test_products_are_those_of_the_floats() -> None:
    whole, x, norm = weight(64, 96), torch.randn(5, 96), torch.rand(96) + 0.5
    matrix, bias, residual = plain_eight.pack(whole), torch.randn(64), torch.randn(5, 64)
    floats, rows = plain_eight.floats(matrix, 96), Normed(x, norm, 1e-6)
    assert torch.equal(plain_eight.linear(x, matrix, bias), plain.linear(x, floats, bias))
    assert torch.equal(plain_eight.norm_linear(rows, matrix), plain.norm_linear(rows, floats))
    assert torch.equal(plain_eight.norm_swiglu(rows, matrix), plain.norm_swiglu(rows, floats))
    made, wanted = (
        to(x, one, residual, bias, 1e-6) for to, one in ((plain_eight.linear_add, matrix), (plain.linear_add, floats))
    )
    assert torch.equal(made.rows, wanted.rows) and torch.equal(made.weight, wanted.weight)


def test_rows_may_have_another_type_than_the_bias() -> None:
    """As where a table in float32 is projected by a model in bfloat16."""
    whole, x, bias = weight(64, 96), torch.randn(5, 96), torch.randn(64).bfloat16()
    matrix = plain_eight.pack(whole)
    wanted = plain_eight.linear(x, matrix, bias.float())
    assert wanted.dtype == torch.float32 and torch.equal(plain_eight.linear(x, matrix, bias), wanted)


@pytest.mark.parametrize(("wrong", "said"), [(float("nan"), "NaN"), (float("inf"), "infinity"), (1e8, "do not fit")])
def test_weights_that_cannot_be_used_are_refused(wrong: float, said: str) -> None:
    whole = weight(8, 64)
    whole[3, 40] = wrong
    with pytest.raises(ValueError, match=said):
        plain_eight.pack(whole)
    with pytest.raises(ValueError, match="multiple of 32"):
        plain_eight.pack(torch.ones(4, 40))
