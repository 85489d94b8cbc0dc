"""From logits to a code: the official processors in the official order, per row, without a hidden generator."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Normed
from omnitts_cli.models import sampling
from omnitts_cli.models.roles import Controls
from omnitts_cli.models.shapes import LEAST_FRAMES, Facts

FACTS = Facts(
    groups=3, codes=6, vocabulary=10, end_code=8, hidden=4, sample_rate=8000, samples_per_frame=640, max_positions=99
)
LOGITS = torch.tensor([[2.0, -1.0, 0.5, -3.0, 1.0, 0.0, 9.0, 9.0, 3.0, 9.0]])
NOTHING = torch.zeros(1, 6, dtype=torch.bool)
TABLE = Normed(torch.arange(12.0).view(6, 2), torch.ones(2), 1e-6)  # no rows for the control ids


def controls(rows: int = 1, **columns: Any) -> Controls:
    made = replace(Controls.empty(rows, "cpu"), temperature=torch.ones(rows), top_p=torch.ones(rows))
    made = replace(made, predictor_temperature=torch.ones(rows), predictor_top_p=torch.ones(rows))
    kinds = {f.name: getattr(made, f.name).dtype for f in fields(made)}
    return replace(made, **{name: torch.tensor(value, dtype=kinds[name]) for name, value in columns.items()})


def first_scores(logits: Tensor, seen: Tensor, frames: Tensor, how: Controls, facts: Facts) -> Tensor:
    """The slots in order."""
    return sampling.first_scores(logits, seen, torch.arange(len(logits)), frames, how, facts)


def choose_first(logits: Tensor, seen: Tensor, frames: Tensor, how: Controls) -> Tensor:
    slots = torch.arange(len(logits))
    codes, rows = sampling.choose_first(logits, TABLE, seen, slots, frames, how, FACTS, plain.OPS)
    assert rows is not None and torch.equal(rows.rows, TABLE.rows[codes.clamp(max=5)])
    return codes


def choose_rest(group: int, logits: Tensor, frames: Tensor, how: Controls) -> Tensor:
    codes, rows = sampling.choose_rest(group, logits, TABLE, frames, how, plain.OPS)
    assert rows is not None and torch.equal(rows.rows, TABLE.rows[codes])
    assert sampling.choose_rest(group, logits, None, frames, how, plain.OPS)[1] is None
    return codes


def late(rows: int = 1) -> Tensor:
    return torch.full((rows,), 50)


def test_only_codes_and_the_end_can_be_said() -> None:
    scores = first_scores(LOGITS, NOTHING, late(), controls(), FACTS)
    assert torch.equal(scores[0, :6], LOGITS[0, :6]) and scores[0, 8] == 3.0
    assert scores[0, [6, 7, 9]].isinf().all()


@pytest.mark.parametrize("frames", range(LEAST_FRAMES + 2))
def test_no_end_before_the_least_length(frames: int) -> None:
    end = first_scores(LOGITS, NOTHING, torch.tensor([frames]), controls(), FACTS)[0, 8]
    assert bool(end.isinf()) == (frames < LEAST_FRAMES)


def test_an_ignored_end_never_comes() -> None:
    scores = first_scores(
        LOGITS.expand(2, -1), NOTHING.expand(2, -1), late(2), controls(2, ignore_end=[True, False]), FACTS
    )
    assert scores[:, 8].tolist() == [float("-inf"), 3.0]


def test_the_penalty_is_for_codes_already_made_once_each() -> None:
    """Divided where positive, multiplied where negative; the end and what was not seen stay as they are."""
    seen = torch.tensor([[True, True, False, True, False, False]])
    scores = first_scores(LOGITS, seen, late(), controls(penalty=[2.0]), FACTS)
    assert scores[0, :6].tolist() == [1.0, -2.0, 0.5, -6.0, 1.0, 0.0] and scores[0, 8] == 3.0
    assert torch.equal(first_scores(LOGITS, NOTHING, late(), controls(penalty=[2.0]), FACTS)[0, :6], LOGITS[0, :6])


def test_the_penalty_comes_before_temperature_and_top_k() -> None:
    """A penalised code can fall out of the top k; a temperature cannot undo that."""
    logits = torch.full((200, 10), -5.0)
    logits[:, 0], logits[:, 1], logits[:, 2] = 3.0, 2.0, 1.0
    seen = torch.zeros(200, 6, dtype=torch.bool)
    seen[:, 0] = True
    how = controls(200, penalty=[8.0] * 200, top_k=[2] * 200, temperature=[5.0] * 200, seed=list(range(200)))
    codes = choose_first(logits, seen, late(200), how)
    assert set(codes.tolist()) == {1, 2}


def test_suppression_comes_before_top_k() -> None:
    """Ids that cannot be said take no place among the k likeliest."""
    how = controls(300, top_k=[2] * 300, seed=list(range(300)))
    codes = choose_first(LOGITS.expand(300, -1), NOTHING.expand(300, -1), late(300), how)
    assert set(codes.tolist()) == {8, 0}


def test_greedy_is_the_likeliest_of_the_allowed_codes() -> None:
    how = controls(2, temperature=[0.0, 0.0])
    made = torch.tensor([LEAST_FRAMES - 1, LEAST_FRAMES])
    assert choose_first(LOGITS.expand(2, -1), NOTHING.expand(2, -1), made, how).tolist() == [0, 8]


def test_groups_have_random_numbers_and_settings_of_their_own() -> None:
    """The other groups follow the predictor's settings; each group, frame and seed draws anew."""
    logits = torch.zeros(400, 6)
    how = controls(400, seed=list(range(400)), temperature=[0.0] * 400)
    frames = late(400)
    drawn = {g: choose_rest(g, logits, frames, how) for g in (1, 2)}
    assert (drawn[1] != drawn[2]).any() and len(drawn[1].unique()) == 6
    assert (choose_rest(1, logits, frames + 1, how) != drawn[1]).any()
    assert torch.equal(choose_rest(1, logits, frames, how), drawn[1])
    still = replace(how, predictor_temperature=torch.zeros(400))
    assert choose_rest(1, logits + torch.eye(6)[3], frames, still).tolist() == [3] * 400


def test_columns_are_rows_of_a_table() -> None:
    table = controls(4, seed=[5, 6, 7, 8], top_k=[1, 2, 3, 4])
    picked = table.rows(torch.tensor([3, 1, 1]), plain.OPS)
    assert picked.seed.tolist() == [8, 6, 6] and picked.top_k.tolist() == [4, 2, 2]
    empty = Controls.empty(3, "cpu")
    assert empty.penalty.tolist() == [1.0] * 3 and not empty.ignore_end.any() and not empty.temperature.any()
