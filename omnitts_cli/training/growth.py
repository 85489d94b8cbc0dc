"""A wider and deeper language side that begins with what a smaller one has learned.

At first the larger model computes the same as the smaller one: whatever is new in it adds zero. New channels of the
residual stream hold zeros, new heads, inner units and layers write zeros, but all of them read, so they learn from the
first step on. This follows Net2Net (Chen and others, 2016), without copies of units, which would stay alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omnitts_cli.models.shapes import StackShape
from omnitts_cli.text.language import LANGUAGES as NAMES
from omnitts_cli.training.ids import LANGUAGES, CodecIds
from omnitts_cli.training.speech import TinySpeech
from omnitts_cli.training.tokens import TokenLists

WRITERS = ("out", "down")
"""Weights that write to the residual stream of a stack."""
TABLES = (
    "embedder.first",
    "embedder.rest",
    "text.out.weight",
    "text.out.bias",
    "speaker.out.weight",
    "speaker.out.bias",
)
"""What makes the talker's input rows; the first of their dimensions is the talker's width, but in the embedder's."""


@torch.no_grad()
def grown(small: TinySpeech, large: TinySpeech) -> dict[str, Tensor]:
    """The weights of `small` in the shapes of `large`, whose own weights are used where something new reads."""
    found = {name: value.clone() for name, value in large.state_dict().items()}
    known = small.state_dict()
    sizes = {
        "talker.stack": (small.talker.shape.stack, large.talker.shape.stack),
        "predictor.stack": (small.predictor.shape.stack, large.predictor.shape.stack),
    }
    for name, value in found.items():
        stack = next((stack for stack in sizes if name.startswith(stack)), None)
        if name not in known:  # a new layer
            if name.rsplit(".", 1)[1] in WRITERS:
                value.zero_()
        elif stack is not None:
            found[name] = _of_stack(name.rsplit(".", 1)[1], known[name], value, *sizes[stack])
        else:
            if name in TABLES:
                value.zero_()
            elif name.startswith("predictor.project."):  # it makes the predictor's input rows
                value[len(known[name]) :] = 0
            found[name] = _corner(known[name], value)
    return found


def _of_stack(kind: str, old: Tensor, new: Tensor, before: StackShape, after: StackShape) -> Tensor:
    if kind == "qkv":
        heads = [
            [n * shape.head_dim for n in (shape.heads, shape.kv_heads, shape.kv_heads)] for shape in (before, after)
        ]
        parts = zip(old.split(heads[0]), new.split(heads[1]), strict=True)
        return torch.cat([_corner(a, b) for a, b in parts])
    if kind == "gate_up":
        return torch.cat([_corner(a, b) for a, b in zip(old.chunk(2), new.chunk(2), strict=True)])
    if kind in WRITERS:
        return _corner(old, torch.zeros_like(new))
    if kind in ("q_norm", "k_norm"):
        return old.clone()
    # a norm divides by the mean over all channels, of which the new ones are zero
    less = (before.hidden / after.hidden) ** 0.5
    return _corner(old * less, torch.full_like(new, float(old.mean()) * less))


def _corner(old: Tensor, new: Tensor) -> Tensor:
    """`new`, with `old` in its first corner."""
    new = new.clone()
    new[tuple(slice(0, size) for size in old.shape)] = old
    return new


@torch.no_grad()
def begin_tokens(table: Tensor, known: TokenLists, tokens: TokenLists) -> None:
    """Gives each token of `tokens` that `known` lacks the mean of the rows of its two parts, in the order in which
    they are joined."""
    for pair in tokens.merges[len(known.merges) :]:
        parts = [tokens.vocabulary[part] for part in pair]
        table[tokens.vocabulary["".join(pair)]] = table[parts].mean(0)


@torch.no_grad()
def begin_languages(table: Tensor, ids: CodecIds, known: dict[str, int]) -> None:
    """Gives the control rows of languages that the model did not know that of English."""
    for place, language in enumerate(LANGUAGES, ids.english):
        if NAMES[language] not in known:
            table[place] = table[ids.english]
