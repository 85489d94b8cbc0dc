"""An adapter while it learns: a pair of narrow matrices beside each linear layer of a stack, in float32.

The modules stay as they are. Their stacks get operations that add scale * B(A x) to the products whose weights have
pairs. A joined weight (qkv, gate_up) has a pair for each of the checkpoint's own layers.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from omnitts_cli.families.common.parts import Language, joined_rows
from omnitts_cli.kernels.ops import Linear, LowRank, Normed, Ops
from omnitts_cli.models.layers import Stack
from omnitts_cli.models.sources import Names
from omnitts_cli.voices import Adapter, Pair
from omnitts_cli.weights.arrays import sources_of
from omnitts_cli.weights.load import tensors_of

LINEAR = ("qkv", "out", "gate_up", "down")
WEIGHT = ".weight"


@dataclass(frozen=True)
class RowSpan:
    """Where a linear layer of the checkpoint is in our modules: some rows of a parameter."""

    weight: str
    begin: int
    end: int


def places_in(
    language: Language, names: Names, stacks: Collection[str] = ("talker", "predictor")
) -> dict[str, RowSpan]:
    """The linear layers of some stacks, by their names in the checkpoint."""
    ours, found = tensors_of(language), {}
    for name, source in names.items():
        stack, _, inside = name.partition(".stack.layers.")
        if stack not in stacks or inside.rpartition(".")[2] not in LINEAR:
            continue
        theirs, at = sources_of(source), 0
        for one, rows in zip(theirs, joined_rows(name, len(theirs), ours), strict=True):
            found[one.removesuffix(WEIGHT)] = RowSpan(name, at, at + rows)
            at += rows
    return found


@dataclass(frozen=True, eq=False)
class LearnedPair:
    a: nn.Parameter  # [rank, inputs]
    b: nn.Parameter  # [outputs, rank]
    scale: float
    place: RowSpan


class LearnedAdapter:
    """The pairs, and the share of inputs that they do not see while `dropout` is above 0."""

    def __init__(self, language: Language, places: Mapping[str, RowSpan], start: Adapter) -> None:
        """`start`: the first values of the pairs; each must have a place."""
        self.dropout = 0.0
        self.silent = False  # True: as if there were no adapter
        self.pairs: dict[str, LearnedPair] = {}
        self._beside: dict[int, list[LearnedPair]] = {}  # by the weight, in the order of its rows
        for name, place in places.items():
            if name not in start.pairs:
                continue
            weight, pair = language.get_parameter(place.weight), start.pairs[name]
            a, b = (nn.Parameter(torch.from_numpy(one.copy()).to(weight.device)) for one in (pair.a, pair.b))
            self.pairs[name] = LearnedPair(a, b, pair.scale, place)
            self._beside.setdefault(id(weight), []).append(self.pairs[name])
        for stack in (language.talker.stack, language.predictor.stack):
            self._join(stack)

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """By the names that PEFT gives them inside the model."""
        named = {f"{name}.lora_A": pair.a for name, pair in self.pairs.items()}
        return named | {f"{name}.lora_B": pair.b for name, pair in self.pairs.items()}

    def adapter(self) -> Adapter:
        """A copy of what has been learned."""
        return Adapter({
            name: Pair(_copied(pair.a), _copied(pair.b), pair.scale)
            for name, pair in self.pairs.items()
        })  # fmt: skip

    def _join(self, stack: Stack) -> None:
        """Makes a stack add the pairs."""
        ops = stack.ops

        def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
            pairs = self._beside.get(id(weight), [])
            if not pairs or self.silent:
                return ops.linear(x, weight, bias)
            beside = [LowRank(one.a, one.b, one.scale, one.place.begin, one.place.end) for one in pairs]
            return ops.learn.low_rank(x, weight, bias, beside, self.dropout)

        stack.ops = with_gradients(ops, linear)


def with_gradients(ops: Ops, linear: Linear) -> Ops:
    """The operations of a stack that learns, with products of its own."""
    learn = ops.learn

    def norm(x: Normed) -> Tensor:
        return learn.norm(x.rows, x.weight, x.eps) if x.value is None else x.value

    def norm_linear(x: Normed, weight: Tensor) -> Tensor:
        return linear(norm(x), weight)

    def norm_swiglu(x: Normed, gate_up: Tensor) -> Tensor:
        return learn.swiglu(norm_linear(x, gate_up))

    def linear_add(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> Normed:
        return learn.add_norm(linear(x, weight), residual, norm, eps)

    return replace(
        ops, linear=linear, norm=norm, norm_linear=norm_linear, norm_swiglu=norm_swiglu, linear_add=linear_add
    )


def _copied(weight: Tensor) -> np.ndarray:
    copied: np.ndarray = weight.detach().float().cpu().numpy().copy()
    return copied


def fresh(language: Language, places: Mapping[str, RowSpan], rank: int, alpha: float, seed: int) -> Adapter:
    """First values: B is zero, so that nothing changes at first."""
    generator, pairs = torch.Generator().manual_seed(seed), {}
    for name, place in places.items():
        inputs = language.get_parameter(place.weight).shape[1]
        a = torch.empty(rank, inputs).uniform_(-1, 1, generator=generator) / math.sqrt(inputs)
        pairs[name] = Pair(a.numpy(), torch.zeros(place.end - place.begin, rank).numpy(), alpha / rank)
    return Adapter(pairs)
