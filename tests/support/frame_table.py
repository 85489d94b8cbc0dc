"""Twins are tried with this: settings of a draw, a table of slots in every state, experts."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omnitts_cli.kernels import plain_frame
from omnitts_cli.kernels.ops import ExpertBlock
from omnitts_cli.request import COLDEST

SLOTS, RING, FRAMES, GROUPS, AUDIO, VOCABULARY, WIDTH, END = 41, 4, 12, 5, 10, 24, 24, 15
Operation = Callable[..., Any]
SETTINGS: list[tuple[float, int, float]] = [
    (0.0, 0, 1.0), (0.9, 50, 1.0), (1.0, 0, 1.0), (0.7, 20, 0.8), (1.3, 1, 1.0), (0.5, 0, 0.3), (2.0, 300, 0.99),
    (COLDEST, 0, 1.0), (COLDEST, 20, 0.8),
]  # fmt: skip
"""Temperature, top-k and top-p of a draw."""


@dataclass
class Table:
    """Every slot in a state of its own; the last one is the spare."""

    row: Tensor
    text: Tensor
    pad: Tensor
    position: Tensor
    report: Tensor
    live: Tensor
    limit: Tensor
    codes: Tensor
    reference: Tensor
    seen: Tensor
    last: Tensor
    repeats: Tensor
    written: Tensor
    closed: Tensor


@dataclass
class Rows:
    """The rows of codes."""

    first: Tensor
    rest: Tensor

    def frame(self, codes: Tensor) -> Tensor:
        rest = [self.rest[group, codes[:, group + 1]] for group in range(GROUPS - 1)]
        return torch.stack([self.first[codes[:, 0]], *rest]).sum(0)


def table_of(made: torch.Generator, where: torch.device, dtype: torch.dtype) -> Table:
    def whole(below: int) -> Tensor:
        return torch.randint(0, below, (SLOTS,), generator=made)

    def real(*shape: int) -> Tensor:
        return torch.randn(shape, generator=made)

    live = whole(4) > 0
    live[-1] = False
    columns = {
        "row": real(SLOTS, WIDTH), "text": real(SLOTS, RING, WIDTH), "pad": real(SLOTS, WIDTH), "position": whole(50),
        "report": torch.stack([whole(6), whole(5) * ~live]), "live": live, "limit": whole(6) + 1,
        "codes": torch.randint(0, AUDIO, (SLOTS, FRAMES, GROUPS), generator=made), "reference": whole(4),
        "seen": torch.rand(SLOTS, AUDIO, generator=made) < 0.3, "last": whole(AUDIO), "repeats": whole(4),
        "written": whole(7), "closed": whole(2) > 0,
    }  # fmt: skip
    return Table(**{name: x.to(where, dtype if x.is_floating_point() else None) for name, x in columns.items()})


def slots_on(where: torch.device) -> Tensor:
    """Every slot once, out of order, and the spare one twice more."""
    order = torch.randperm(SLOTS, generator=torch.Generator().manual_seed(8))
    return torch.cat([order, torch.tensor([SLOTS - 1] * 2)]).to(where)


def begins_alike(begin: Operation, where: torch.device, dtype: torch.dtype) -> None:
    table, slots = table_of(torch.Generator().manual_seed(7), where, dtype), slots_on(where)
    for fast, truth in zip(begin(table, slots), plain_frame.begin(table, slots), strict=True):
        assert fast.dtype == truth.dtype and torch.equal(fast, truth)


def scores_alike(first_scores: Operation, where: torch.device, dtype: torch.dtype) -> None:
    made = torch.Generator().manual_seed(7)
    logits = (3 * torch.randn(40, VOCABULARY, generator=made)).to(where, dtype)
    seen = (torch.rand(SLOTS, AUDIO, generator=made) < 0.5).to(where)
    slots = torch.randperm(SLOTS, generator=made)[:40].to(where)
    penalty = (torch.rand(40, generator=made) + 0.5).to(where)
    frames = torch.randint(0, 4, (40,), generator=made).to(where)
    ignore_end = (torch.rand(40, generator=made) < 0.3).to(where)
    endless = (frames < 2) | ignore_end
    case = (logits, seen, slots, frames, penalty, ignore_end, 2, END)
    truth = plain_frame.first_scores(*case)
    torch.testing.assert_close(first_scores(*case), truth, rtol=1e-6, atol=0)
    assert truth[~endless, END].isfinite().all() and not truth[endless, END].isfinite().any()


def finishes_alike(finish: Operation, where: torch.device, dtype: torch.dtype) -> None:
    made = torch.Generator().manual_seed(7)
    table, slots = table_of(made, where, dtype), slots_on(where)
    count = len(slots)
    codes = torch.randint(0, AUDIO, (count, GROUPS), generator=made).to(where)
    codes[::7, 0] = END
    codes[1::3, 0] = table.last[slots[1::3]]
    logits = torch.randn(count, VOCABULARY, generator=made).to(where, dtype)
    logits[::5, 3], logits[2::11, 20] = float("nan"), float("-inf")
    ignore_end = (torch.rand(count, generator=made) < 0.3).to(where)
    first = torch.randn(VOCABULARY, WIDTH, generator=made)
    rest = torch.randn(GROUPS - 1, AUDIO, WIDTH, generator=made)
    rows = Rows(first.to(where, dtype), rest.to(where, dtype))
    _, _, frames, may = plain_frame.begin(table, slots)

    fast, truth = copy.deepcopy(table), copy.deepcopy(table)
    finish(fast, slots, frames, may, logits, codes, ignore_end, rows, END, 3)
    plain_frame.finish(truth, slots, frames, may, logits, codes, ignore_end, rows, END, 3)
    torch.testing.assert_close(fast.row, truth.row, rtol=1e-2 if dtype == torch.bfloat16 else 1e-6, atol=1e-6)
    # where the spare slot writes twice, anybody may come last
    assert torch.equal(fast.codes[:-1], truth.codes[:-1])
    for name in ("position", "report", "live", "seen", "last", "repeats"):
        assert torch.equal(getattr(fast, name), getattr(truth, name)), name
    assert set(truth.report[1][table.live].tolist()) == set(range(5))


def experts_case(
    rows: int, every: int, always: int, chosen: int, inner: int, hidden: int, where: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor, ExpertBlock]:
    """Rows, a norm, and a block of `every` experts, of which all rows use the last `always`."""
    seed = torch.Generator().manual_seed(rows + every * inner)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=seed).to(where, dtype)

    count = every - always
    block = ExpertBlock(
        router=random(count + (always > 0), hidden) * hidden**-0.5 * 2,
        gate_up=random(every, 2 * inner, hidden) * hidden**-0.5,
        down=random(every, hidden, inner) * inner**-0.5,
        count=count,
        chosen=chosen,
        renormalised=chosen > 1,
    )
    return random(rows, hidden), (torch.rand(hidden, generator=seed) + 0.5).to(where, dtype), block


def close(fast: Tensor, truth: Tensor) -> None:
    """Equal to what float64 says, as closely as the number format of `fast` allows."""
    bound = 5e-6 if fast.dtype == torch.float32 else 1e-2  # the plain versions themselves are off by half of that
    assert fast.shape == truth.shape
    assert ((fast.double() - truth.double()).norm() / truth.double().norm()).item() < bound
