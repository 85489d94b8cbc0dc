"""Operations for long contexts: logits and experts equal their plain versions. Attention is in test_attention.py."""

import pytest
import tables
import torch
from frame_table import close
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import ExpertBlock

pytestmark = pytest.mark.gpu
EPS = 1e-6


@pytest.mark.parametrize("batch, splits", [(1, 32), (2, 32), (8, 8), (32, 2), (64, 1), (500, 1)])
def test_more_requests_share_fewer_programs(batch: int, splits: int) -> None:
    pytest.importorskip("triton")
    from omnitts_cli.kernels.triton.long import splits_of

    assert splits_of(batch, 4) == splits


@pytest.mark.parametrize("rows", [1, 5, 32])
def test_scores_are_float32(rows: int, where: torch.device, dtype: torch.dtype) -> None:
    from omnitts_cli.kernels.triton.long import scores

    made = torch.Generator().manual_seed(rows)
    hidden, head = torch.randn(rows, 64, generator=made), torch.randn(1000, 64, generator=made)
    fast = scores(hidden.to(where, dtype), head.to(where, dtype))
    truth = hidden.to(dtype).double() @ head.to(dtype).double().T
    assert fast.dtype == torch.float32
    assert (fast.cpu().double() - truth).abs().max() < 1e-4  # bfloat16 logits would be off by 0.06


@pytest.mark.parametrize("rows", [3, 400])
def test_experts_of_the_released_sizes(rows: int, where: torch.device, dtype: torch.dtype) -> None:
    experts = tables.card().long.experts

    if where.type == "cpu":
        pytest.skip("too large for the interpreter")
    made = torch.Generator().manual_seed(rows)

    def random(*shape: int, scale: float = 1.0) -> Tensor:
        return (torch.randn(shape, generator=made) * scale).to(where, dtype)

    hidden, inner, count = 2048, 768, 16
    block = ExpertBlock(
        random(count, hidden, scale=0.02), random(count, 2 * inner, hidden, scale=0.02),
        random(count, hidden, inner, scale=0.03), count, 8, True,
    )  # fmt: skip
    x, norm = random(rows, hidden), random(hidden).abs() + 0.5
    wide = ExpertBlock(*(w.double() for w in (block.router, block.gate_up, block.down)), count, 8, True)
    truth = plain.experts(x.double(), norm.double(), EPS, wide)
    close(experts(x, norm, EPS, block), truth)
