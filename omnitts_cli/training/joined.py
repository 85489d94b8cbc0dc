"""Weights of modules as slices of one tensor: one kernel casts, updates, averages or exchanges all of them.

A captured step of a small network is thousands of short kernels. Many of them only cast one of hundreds of weights, or
add to its gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ALIGNED = 8
"""Each weight begins at a multiple of so many elements (16 bytes in half precision); cuDNN is slow otherwise."""


@dataclass(frozen=True)
class OwnedWeight:
    """A weight and the module that owns it."""

    owner: nn.Module
    name: str
    weight: nn.Parameter
    halved: bool  # used in half precision

    def shaped(self, part: Tensor) -> Tensor:
        """A slice of the joined tensor in the shape of the weight; weights of convolutions are channels-last."""
        shape = self.weight.shape
        if len(part) > shape.numel():
            part = part[: shape.numel()]
        return part.view(shape[0], *shape[2:], shape[1]).movedim(-1, 1) if len(shape) > 2 else part.view(shape)

    def flat(self) -> Tensor:
        weight = self.weight.detach()
        flat = (weight.movedim(1, -1) if weight.ndim > 2 else weight).reshape(-1)
        return F.pad(flat, (0, -len(flat) % ALIGNED))


class JoinedWeights:
    """`values` holds the weights of the modules, which are views of it from now on; `gradients` holds their gradients.

    `half`: matrices and biases are used in this precision, but not those of modules in `whole`. Weights whose path has
    one of the words in `skip` are left as they are.
    """

    def __init__(
        self,
        modules: Iterable[nn.Module],
        half: torch.dtype | None = None,
        whole: Iterable[nn.Module] = (),
        skip: Sequence[str] = (),
    ) -> None:
        never = {id(weight) for module in whole for weight in module.parameters()}
        places = []
        for module in modules:
            for path, owner in module.named_modules():
                for name, weight in owner.named_parameters(recurse=False):
                    if not any(word in f"{path}.{name}" for word in skip):
                        wide = weight.ndim > 1 or (name == "bias" and not isinstance(owner, nn.LayerNorm))
                        halved = half is not None and wide and id(weight) not in never
                        places.append(OwnedWeight(owner, name, weight, halved))
        # those in half precision first, so that one cast converts all of them
        self.places = sorted(places, key=lambda place: not place.halved)
        self._half = half
        flat = [place.flat() for place in self.places]
        self._sizes = [len(part) for part in flat]
        self._count = sum(place.halved for place in self.places)
        self.values = nn.Parameter(torch.cat(flat))
        self.gradients = torch.zeros_like(self.values)
        self.values.grad = self.gradients
        for place, part in zip(self.places, self.split(self.values.detach()), strict=True):
            place.weight.data = part

    def split(self, joined: Tensor) -> list[Tensor]:
        """`values`, or `gradients`, as one tensor for each weight."""
        slices = joined.split(self._sizes)
        return [place.shaped(part) for place, part in zip(self.places, slices, strict=True)]

    def parts(self) -> list[Tensor]:
        """Each weight in the precision of its use; gradients flow into `values`."""
        halved = sum(self._sizes[: self._count])
        first, rest = self.values.split([halved, self.values.numel() - halved])
        if self._half is not None:
            first = first.to(self._half)
        slices = [*first.split(self._sizes[: self._count]), *rest.split(self._sizes[self._count :])]
        return [place.shaped(part) for place, part in zip(self.places, slices, strict=True)]

    @contextmanager
    def used(self, parts: Iterable[Tensor]) -> Iterator[None]:
        """Within the context, the modules use these parts as their weights."""
        for place, part in zip(self.places, parts, strict=True):
            # set in the dict itself, so that the order of the parameters stays
            place.owner._parameters[place.name] = part  # type: ignore[assignment]
        try:
            yield
        finally:
            for place in self.places:
                place.owner._parameters[place.name] = place.weight

    def learn(self, loss: Tensor, keep_graph: bool = False) -> None:
        """Write the gradient of a loss to `gradients`."""
        self.gradients.copy_(torch.autograd.grad(loss, self.values, retain_graph=keep_graph)[0])
