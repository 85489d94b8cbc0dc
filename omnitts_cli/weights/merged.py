"""A checkpoint with an adapter: what is read of a weight W is W + scale * B A, computed in float32 and rounded once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from omnitts_cli.errors import VoiceError
from omnitts_cli.voices import Adapter, Pair
from omnitts_cli.weights.checkpoint import Check, Checkpoint

if TYPE_CHECKING:
    from torch import Tensor

WEIGHT = ".weight"


@dataclass(frozen=True)
class MergedCheckpoint(Checkpoint):
    """Its files are those of the model, which stay as they are."""

    pairs: Mapping[str, Pair] = field(default_factory=dict)

    @staticmethod
    def of(files: Checkpoint, adapter: Adapter) -> "MergedCheckpoint":
        """Raises VoiceError if a pair fits no weight of the model."""
        known = files.names()
        wrong = []
        for name, pair in adapter.pairs.items():
            shape = known[name + WEIGHT][1] if name + WEIGHT in known else None
            wanted = (len(pair.b), pair.a.shape[1])
            if shape != wanted:
                wrong.append(f"{name} has {list(shape) if shape else 'no weight'}, the adapter {list(wanted)}")
        if wrong:
            more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            raise VoiceError(
                "the tuned voice does not fit the model",
                cause="; ".join(wrong[:3]) + more,
                hint="omnitts voices show NAME",
            )
        return MergedCheckpoint(files.path, files.headers, adapter.pairs)

    def array(self, name: str, check: Check | None = None, into: np.ndarray | None = None) -> np.ndarray:
        whole, pair = super().array(name, check, into), self._pair(name)
        if pair is not None:
            whole += np.float32(pair.scale) * (pair.b @ pair.a)
        return whole

    def read_into(self, name: str, target: "Tensor", check: "Callable[[str, Tensor], None] | None" = None) -> None:
        if self._pair(name) is None:
            return super().read_into(name, target, check)
        import torch

        whole = torch.empty(self.shape(name), dtype=torch.float32)
        super().read_into(name, whole, check)
        pair = self.pairs[name.removesuffix(WEIGHT)]
        whole += pair.scale * (torch.from_numpy(pair.b) @ torch.from_numpy(pair.a))
        target.copy_(whole)

    def _pair(self, name: str) -> Pair | None:
        return self.pairs.get(name.removesuffix(WEIGHT)) if name.endswith(WEIGHT) else None
