"""Logits of a model that is made to say given codes, so that two versions of it can be compared step by step."""

import torch
from torch import Tensor

from omnitts_cli.kernels.ops import Normed
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request

TEMPERATURE = 0.9
"""Of the distributions that are compared: that of the released models."""


@torch.inference_mode()
def forced(model: SpeechModel, request: Request, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Every logit while the model says `codes` [T, G]: of the talker [T, codes], of the predictor [T, G - 1, codes]."""
    prompter, codes = model.prompter, codes.to(model.device)

    def at(position: int) -> Tensor:
        return torch.tensor([position], device=model.device)

    prompt, slot = prompter.prompts([prompter.draft(request)])[0], at(0)
    last = len(prompt.rows) - 1
    cache = model.talker.cache(1, last + len(codes))
    model.talker.prefill(prompt.rows[None, :last], at(0), slot, cache, last)
    row, states, rest = prompt.rows[-1:], [], []
    for frame, code in enumerate(codes):
        states.append(model.talker.step(row, at(last + frame), slot, cache, last + frame + 1))
        row = model.embedder.frame(code[None]) + prompt.pad
    hidden, first = torch.cat(states), model.predictor.inputs(model.embedder)[0]

    def choose(group: int, scores: Tensor, rows: Normed | None) -> tuple[Tensor, Normed | None]:
        rest.append(scores)
        return codes[:, group], None if rows is None else rows._replace(rows=rows.rows[codes[:, group]])

    model.predictor.frame(hidden, codes[:, 0], first._replace(rows=first.rows[codes[:, 0]]), model.embedder, choose)
    return model.talker.logits(hidden)[:, : model.facts.codes], torch.stack(rest, 1)


def divergence(truth: Tensor, found: Tensor) -> tuple[float, float]:
    """Mean KL in nats, and how often the likeliest code is the same, in percent."""
    p, q = (truth / TEMPERATURE).log_softmax(-1), (found / TEMPERATURE).log_softmax(-1)
    same = (truth.argmax(-1) == found.argmax(-1)).double().mean()
    return float((p.exp() * (p - q)).sum(-1).mean()), 100 * float(same)
