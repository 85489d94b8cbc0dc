"""Codes drawn row by row, in Python and in C for each instruction set, are those that the plain operation draws."""

from collections.abc import Callable

import pytest
import torch
from frame_table import SETTINGS
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cpu import draw, library, networks

Choose = Callable[..., Tensor]


@pytest.fixture(params=["python", "avx512", "avx2", "plain"])
def choose(request: pytest.FixtureRequest) -> Choose:
    if request.param == "python":
        return draw.choose
    if request.param not in library.usable():
        pytest.skip("not compiled, or not of this processor")
    native = library.load(request.param)
    return lambda *given: torch.from_numpy(networks.choose(native, *given))


@pytest.mark.parametrize("size", [24, 300, 2048])
def test_codes_and_settings_by_row(size: int, choose: Choose) -> None:
    rows, made = 8 * len(SETTINGS), torch.Generator().manual_seed(size)
    logits = 3 * torch.randn(rows, size, generator=made)
    logits[::5, : size // 3] = float("-inf")
    logits[::3] = logits[::3].round()  # many are equal
    logits[1::7, 0] = -0.0
    seeds = torch.randint(-(2**62), 2**62, (rows,), generator=made)
    frames = torch.randint(0, 9000, (rows,), generator=made)
    columns = [torch.tensor(column).repeat(8) for column in zip(*SETTINGS, strict=True)]
    for group in (0, 7):
        truth = plain.choose(logits, seeds, frames, group, *columns)
        made_here = choose(logits, seeds, frames, group, *columns)
        assert made_here.dtype == truth.dtype and torch.equal(made_here, truth)


def test_chance_has_the_same_bits() -> None:
    made = torch.Generator().manual_seed(1)
    seeds = torch.randint(-(2**63), 2**63 - 1, (200,), generator=made)
    frames = torch.randint(0, 9000, (200,), generator=made)
    for group in (0, 15):
        truth = plain.uniform(seeds, frames, group).tolist()
        assert [draw.uniform(*where, group) for where in zip(seeds.tolist(), frames.tolist(), strict=True)] == truth


def test_what_is_no_number_is_answered_all_the_same(choose: Choose) -> None:
    """The frame's bookkeeping finds out and ends the request."""
    logits = torch.zeros(3, 8)
    logits[0, 5], logits[1, 2], logits[2] = float("nan"), float("inf"), float("-inf")
    one, whole = torch.ones(3), torch.zeros(3, dtype=torch.int64)
    codes = choose(logits, whole, whole, 0, one, torch.full((3,), 4), one * 0.9)
    assert ((codes >= 0) & (codes < 8)).all() and codes.tolist()[:2] == [5, 2]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a stream asks NumPy not to warn
@pytest.mark.parametrize("temperature", [1e-38, 1e-45])
def test_next_to_no_temperature_is_none(temperature: float, choose: Choose) -> None:
    logits = 5 * torch.randn(4, 32, generator=torch.Generator().manual_seed(2))
    whole, column = torch.zeros(4, dtype=torch.int64), torch.full((4,), temperature)
    for top_p in (1.0, 0.5):
        assert torch.equal(choose(logits, whole, whole, 0, column, whole, torch.full((4,), top_p)), logits.argmax(-1))
