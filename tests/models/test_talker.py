"""Talker and predictor against the official package, teacher-forced. Step by step: families/qwen3_tts/test_equal.py."""

import copy

import pytest
import torch
from golden_set import case
from tiny_models import language
from torch import Tensor

from omnitts_cli.kernels.ops import Normed

CASES = (
    "custom_voice/english_nonstream", "custom_voice_small/english_nonstream", "base/icl_stream_text_longer",
    "base/xvector_stream", "base_large/icl_nonstream",
)  # fmt: skip
close = {"rtol": 1e-4, "atol": 2e-5}


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_hidden_states_and_logits(name: str) -> None:
    one, talker = case(name), language(name.split("/")[0]).talker
    prompt = one.tensors["prefill.inputs_embeds"].shape[1]
    hidden = talker(torch.cat([one.tensors["prefill.inputs_embeds"], one.tensors["talker.step_input"]], 1))
    torch.testing.assert_close(hidden[:, :prompt], one.tensors["talker.prefill_last_hidden"], **close)
    torch.testing.assert_close(hidden[:, prompt:], one.tensors["talker.step_hidden"], **close)
    logits = talker.logits(hidden[0, prompt - 1 :])
    torch.testing.assert_close(one.same("talker.logits", logits), one.tensors["talker.logits"][:, 0], **close)


@torch.no_grad()
@pytest.mark.parametrize("name", CASES[:3])
def test_the_predictors_logits_of_the_first_frame(name: str) -> None:
    """At once, and group by group, before and after its tables were narrowed to its own width."""
    tensors, roles, seen = case(name).tensors, language(name.split("/")[0]), list[Tensor]()
    codes = tensors["talker.frames"][:, 0]  # [1, G]
    hidden, wanted = tensors["talker.prefill_last_hidden"][:, -1], tensors["predictor.0.logits"][:, 0]

    def choose(group: int, logits: Tensor, table: Normed | None) -> tuple[Tensor, Normed | None]:
        seen.append(logits)
        return codes[:, group], None if table is None else table._replace(rows=table.rows[codes[:, group]])

    torch.testing.assert_close(roles.predictor(hidden, codes, roles.embedder)[0], wanted, **close)
    folded = copy.deepcopy(roles.predictor)
    folded.prepare(roles.embedder)
    assert (folded.narrowed is None) == (folded.project is None)
    for predictor in (roles.predictor, folded):
        table = predictor.inputs(roles.embedder)[0]
        row = table._replace(rows=table.rows[codes[:, 0]])
        assert torch.equal(predictor.frame(hidden, codes[:, 0], row, roles.embedder, choose), codes)
    torch.testing.assert_close(torch.cat(seen), torch.cat([wanted, wanted]), **close)
