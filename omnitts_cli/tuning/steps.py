"""Steps of the optimiser on a device. Where the device captures, the gradients of a batch are recorded once for each of
its shapes, and the update once; then a step is a copy and a few replays.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from omnitts_cli.devices.device import Device, Fetch
from omnitts_cli.tuning.learning import optimiser
from omnitts_cli.tuning.loss import PaddedBatch

Key = tuple[tuple[int, ...], ...]
Part = tuple[PaddedBatch, Tensor]
"""A batch of a step, and what divides its two sums."""


class Steps:
    """Gradients of batches, then an update of the weights.

    `gradients(batch, shares, lost)` adds to the gradients of the weights, and its two losses to `lost`. The two
    `shares` divide the sums of a batch by the counts of the whole step.
    """

    def __init__(
        self, device: Device, weights: Sequence[nn.Parameter], weight_decay: float,
        gradients: Callable[[PaddedBatch, Tensor, Tensor], None], half_moments: bool = False,
    ) -> None:  # fmt: skip
        self.device, self.weights, self._gradients = device, list(weights), gradients
        self._moments = torch.bfloat16 if half_moments else torch.float32
        where = device.torch_device
        self.rate = torch.zeros((), device=where)
        self.optimiser = optimiser(device, self.weights, self.rate, (0.9, 0.95), weight_decay, half_moments)
        self._sums, self._losses = torch.zeros(2, device=where), torch.zeros(2, device=where)
        for one in self.weights:
            one.grad = torch.zeros_like(one)
        self._recorded: dict[Key, tuple[PaddedBatch, Tensor, Callable[[], None]]] = {}
        self._stream, self._update = device.stream(), self._apply
        if device.captures:
            self._update = self._stream.capture(self._apply, True)  # tried with gradients and a rate of zero
            for state in self.optimiser.state.values():
                state["step"].zero_()

    @contextmanager
    def working(self) -> Iterator[None]:
        """All work is issued inside, so that it has one order."""
        if not self.device.captures:
            yield
            return
        with self._stream:
            yield

    def place(self, array: Any) -> Tensor:
        return self.device.to_device(array) if self.device.captures else torch.from_numpy(array)

    def placed(self, parts: Sequence[Part]) -> list[Part]:
        """The same batches and shares on the device. Copies may run while the device works."""
        return [(batch.on(self.place), self.place(shares.numpy())) for batch, shares in parts]

    def step(self, parts: Sequence[Part], rate: float) -> Fetch:
        """One step, from placed batches and their shares; its two losses."""
        if self.device.captures:
            for batch, shares in parts:
                self._record(batch, shares)
        self.clear()
        self.rate.fill_(rate)
        for batch, shares in parts:
            if not self.device.captures:
                self._gradients(batch, shares, self._sums)
                continue
            mine, own, replay = self._recorded[key_of(batch)]
            for one in fields(batch):
                getattr(mine, one.name).copy_(getattr(batch, one.name))
            own.copy_(shares)
            replay()
        self._update()
        return self._stream.fetch(self._losses)

    def clear(self) -> None:
        """Forgets the gradients of a step that did not end."""
        torch._foreach_zero_([one.grad for one in self.weights if one.grad is not None])
        self._sums.zero_()

    def forget(self) -> None:
        """Gives the memory of recorded steps back."""
        self._recorded.clear()
        self.clear()

    def _apply(self) -> None:
        nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimiser.step()
        self._losses.copy_(self._sums)

    def _record(self, batch: PaddedBatch, shares: Tensor) -> None:
        if (key := key_of(batch)) in self._recorded:
            return
        mine, own = PaddedBatch(*(getattr(batch, one.name).clone() for one in fields(batch))), shares.clone()
        replay = self._stream.capture(lambda: self._gradients(mine, own, self._sums))
        self._recorded[key] = mine, own, replay

    def state(self, names: Sequence[str]) -> dict[str, Tensor]:
        """What the optimiser knows of each weight."""
        found = dict[str, Tensor]()
        for name, one in zip(names, self.weights, strict=True):
            found |= {f"{key}.{name}": value for key, value in self.optimiser.state.get(one, {}).items()}
        return found

    @torch.no_grad()
    def resume(self, names: Sequence[str], tensors: dict[str, Tensor]) -> None:
        """Puts `state` back, in place where steps are recorded."""
        for name, one in zip(names, self.weights, strict=True):
            types = {"step": torch.float32, "exp_avg": self._moments, "exp_avg_sq": self._moments}
            kept = {key: tensors[f"{key}.{name}"].to(kind) for key, kind in types.items() if f"{key}.{name}" in tensors}
            known = self.optimiser.state.get(one)
            if known:
                for key, value in kept.items():
                    known[key].copy_(value)
            elif kept:
                self.optimiser.state[one] = kept


def key_of(batch: PaddedBatch) -> Key:
    """The sizes of its tensors."""
    return tuple(tuple(getattr(batch, one.name).shape) for one in fields(batch))
