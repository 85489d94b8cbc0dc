"""Code2Wav: the codec of Qwen3-Omni. It only decodes, and its sound begins a little after its frames do.

The transformer's input is the mean of one table's rows for the codes of a frame. Each transposed convolution cuts its
first samples; except in the first frame of a stream, cutting at the other end would give the same samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.models.codec_base import Apply, UpsamplingDecoder, UpsamplingShape


@dataclass(frozen=True, kw_only=True)
class Code2WavShape(UpsamplingShape):
    """Sizes. Widths: the transformer's -> width, halved by each rise -> sound."""

    @property
    def latent(self) -> int:
        """The transformer's own width."""
        return self.transformer.hidden

    @property
    def cuts(self) -> tuple[int, ...]:
        """Samples cut at the beginning after each rise: those cut before, upsampled, and `rate` more."""
        lost = [0]
        for rate in self.rises:
            lost.append(lost[-1] * rate + rate)
        return tuple(lost[1:])


class Code2Wav(UpsamplingDecoder):
    """Fills the Codec role."""

    def __init__(self, shape: Code2WavShape) -> None:
        super().__init__(shape)
        self.table = nn.Parameter(torch.randn(shape.groups * shape.codes, shape.latent))
        self._add_layers()
        self.transformer.into = self.transformer.out = nn.Identity()

    def embed(self, codes: Tensor) -> Tensor:
        """[B, T, G] -> [B, T, latent]: the mean over the groups, each of which has its own part of the table."""
        offsets = torch.arange(0, self.table.shape[0], self.shape.codes, device=codes.device)
        return F.embedding(codes + offsets, self.table).mean(2)

    def _enter(self, x: Tensor, apply: Apply) -> Tensor:
        return x
