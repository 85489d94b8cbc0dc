"""The predictor against the official package; teacher-forced, cached and folded ways give the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from golden_set import case
from greedy import likeliest
from tiny_models import language
from torch import Tensor

from omnitts_cli.kernels.ops import Normed

close = {"rtol": 1e-4, "atol": 2e-5}
CASES = ("custom_voice/english_nonstream", "custom_voice_small/english_nonstream", "base/icl_stream_text_longer")


def forced(codes: Tensor, seen: list[Tensor]) -> Callable[[int, Tensor], Tensor]:
    """Chooses what is in `codes` [B, G] and keeps the logits."""

    def choose(group: int, logits: Tensor, table: Normed | None) -> tuple[Tensor, Normed | None]:
        seen.append(logits)
        return codes[:, group], None if table is None else table._replace(rows=table.rows[codes[:, group]])

    return choose


def frame(predictor: Any, hidden: Tensor, first: Tensor, embedder: Any, choose: Any) -> Tensor:
    """A frame whose group 0 is `first`."""
    table = predictor.inputs(embedder)[0]
    row = table._replace(rows=table.rows[first.clamp(max=len(table.rows) - 1)])
    return predictor.frame(hidden, first, row, embedder, choose)


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_logits_of_the_first_frame(name: str) -> None:
    one, roles = case(name), language(name.split("/")[0])
    tensors, predictor = one.tensors, roles.predictor
    codes = tensors["talker.frames"][:, 0]  # [1, G]
    assert torch.equal(codes[:, 1:], tensors["predictor.0.sequences"])
    hidden = tensors["talker.prefill_last_hidden"][:, -1]
    wanted = tensors["predictor.0.logits"][:, 0]
    torch.testing.assert_close(predictor(hidden, codes, roles.embedder)[0], wanted, **close)
    seen: list[Tensor] = []
    assert torch.equal(frame(predictor, hidden, codes[:, 0], roles.embedder, forced(codes, seen)), codes)
    torch.testing.assert_close(torch.cat(seen), wanted, **close)
    greedy = frame(predictor, hidden, codes[:, 0], roles.embedder, likeliest)
    assert torch.equal(greedy, codes)


@torch.no_grad()
@pytest.mark.parametrize("name", ["custom_voice", "custom_voice_small", "base_large"])
def test_folded_tables_change_nothing(name: str) -> None:
    """With and without a projection; the end code has no row in them and does no harm."""
    roles = language(name)
    folded = copy.deepcopy(roles.predictor)
    folded.prepare(roles.embedder)
    assert (folded.narrowed is None) == (folded.project is None)
    generator = torch.Generator().manual_seed(0)
    shape = folded.shape
    hidden = torch.randn(5, shape.talker_hidden, generator=generator)
    codes = torch.randint(0, shape.codes, (5, shape.groups), generator=generator)
    plainly: list[Tensor] = []
    quickly: list[Tensor] = []
    frame(roles.predictor, hidden, codes[:, 0], roles.embedder, forced(codes, plainly))
    frame(folded, hidden, codes[:, 0], roles.embedder, forced(codes, quickly))
    torch.testing.assert_close(torch.stack(quickly), torch.stack(plainly), **close)
    whole = roles.predictor(hidden, codes, roles.embedder)
    torch.testing.assert_close(torch.stack(plainly, 1), whole, **close)
    beyond = torch.full((5,), roles.embedder.first.shape[0] - 1)
    assert frame(folded, hidden, beyond, roles.embedder, likeliest).shape == codes.shape
