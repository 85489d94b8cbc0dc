"""From logits to a code: settings of its own for each group. Scores: the golden set and kernels/cpu/test_frame.py."""

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Normed
from omnitts_cli.models import sampling
from omnitts_cli.models.roles import Controls
from omnitts_cli.models.shapes import Facts

TABLE = Normed(torch.arange(12.0).view(6, 2), torch.ones(2), 1e-6)  # no rows for the control ids


def controls(rows: int, **columns: Any) -> Controls:
    made = replace(Controls.empty(rows, "cpu"), temperature=torch.ones(rows), top_p=torch.ones(rows))
    made = replace(made, predictor_temperature=torch.ones(rows), predictor_top_p=torch.ones(rows))
    kinds = {f.name: getattr(made, f.name).dtype for f in fields(made)}
    return replace(made, **{name: torch.tensor(value, dtype=kinds[name]) for name, value in columns.items()})


def choose_rest(group: int, logits: Tensor, frames: Tensor, how: Controls) -> Tensor:
    codes, rows = sampling.choose_rest(group, logits, TABLE, frames, how, plain.OPS)
    assert rows is not None and torch.equal(rows.rows, TABLE.rows[codes])
    assert sampling.choose_rest(group, logits, None, frames, how, plain.OPS)[1] is None
    return codes


def test_groups_have_random_numbers_and_settings_of_their_own() -> None:
    """The other groups follow the predictor's settings; each group, frame and seed draws anew."""
    logits = torch.zeros(400, 6)
    how, frames = controls(400, seed=list(range(400)), temperature=[0.0] * 400), torch.full((400,), 50)
    drawn = {g: choose_rest(g, logits, frames, how) for g in (1, 2)}
    assert (drawn[1] != drawn[2]).any() and len(drawn[1].unique()) == 6
    assert (choose_rest(1, logits, frames + 1, how) != drawn[1]).any()
    assert torch.equal(choose_rest(1, logits, frames, how), drawn[1])
    still = replace(how, predictor_temperature=torch.zeros(400))
    assert choose_rest(1, logits + torch.eye(6)[3], frames, still).tolist() == [3] * 400


def test_the_end_code_has_any_row() -> None:
    """Of the table of codes, which has none for it."""
    facts = Facts(3, 6, 10, 8, 4, 8000, 640, 99)
    logits, slots = torch.arange(10.0).expand(1, -1), torch.zeros(1, dtype=torch.int64)
    how = controls(1, temperature=[0.0])
    unseen = torch.zeros(1, 6, dtype=torch.bool)
    code, row = sampling.choose_first(logits, TABLE, unseen, slots, slots + 50, how, facts, plain.OPS)
    assert code.item() == facts.end_code and row is not None and torch.equal(row.rows, TABLE.rows[-1:])


def test_columns_are_rows_of_a_table() -> None:
    table = controls(4, seed=[5, 6, 7, 8], top_k=[1, 2, 3, 4])
    picked = table.rows(torch.tensor([3, 1, 1]), plain.OPS)
    assert picked.seed.tolist() == [8, 6, 6] and picked.top_k.tolist() == [4, 2, 2]
    empty = Controls.empty(3, "cpu")
    assert empty.penalty.tolist() == [1.0] * 3 and not empty.ignore_end.any() and not empty.temperature.any()
