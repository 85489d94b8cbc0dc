"""CodecDecoder: the decoding half of the Qwen3-TTS codec: codes -> sound, whole or chunk by chunk.

There is one path: a whole clip is one step from an empty state, so a stream cut into chunks of any size gives the same
sound. The decoder is strictly causal: frame t first changes sample t * samples_per_frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from omnitts_cli.models.codec_base import Apply, UpsamplingDecoder, UpsamplingShape
from omnitts_cli.models.codec_layers import CausalConv
from omnitts_cli.models.quantiser import SplitQuantiser


@dataclass(frozen=True, kw_only=True)
class DecoderShape(UpsamplingShape):
    """Sizes of the decoder. Widths: book -> quantised -> latent -> width, halved by each rise -> sound."""

    book_width: int
    quantised: int
    latent: int
    opening_kernel: int = 3


class CodecDecoder(UpsamplingDecoder):
    """Fills the Codec role."""

    def __init__(self, shape: DecoderShape) -> None:
        super().__init__(shape)
        self.quantiser = SplitQuantiser(shape.groups, shape.codes, shape.book_width, shape.quantised)
        self.opening = CausalConv(shape.quantised, shape.latent, shape.opening_kernel)
        self._add_layers()

    def embed(self, codes: Tensor) -> Tensor:
        """[B, T, G] -> [B, T, quantised]: the sum of the groups' entries."""
        return self.quantiser.decode(codes)

    def sound(self, latent: Tensor) -> Tensor:
        """Quantised latent [B, T, quantised] -> sound before it is clamped: where training enters and measures."""
        state = self.initial_state(latent.shape[0], latent.device, self.dtype)
        return self._run(latent, state)[0]

    def _enter(self, x: Tensor, apply: Apply) -> Tensor:
        x = x.to(self.dtype).transpose(1, 2)  # [B, quantised, T]
        return apply("opening", self.opening, x).transpose(1, 2)

    def _entry_layers(self) -> list[tuple[str, nn.Module]]:
        return [("opening", self.opening)]

    def _kept_in_float32(self) -> Iterable[nn.Parameter]:
        return self.quantiser.parameters()


def decode_in_pieces(codec: CodecDecoder, codes: Tensor, frames: int = 300, context: int = 25) -> Tensor:
    """The published way to decode long clips: codes [B, T, G] -> sound [B, samples].

    Pieces of `frames` frames are decoded independently, each after `context` frames of the piece before. From the
    second piece on this is not quite the sound of one pass; it is here for comparisons.
    """
    pieces = []
    for start in range(0, codes.shape[1], frames):
        before = min(context, start)
        piece = codec(codes[:, start - before : start + frames])
        pieces.append(piece[:, before * codec.shape.samples_per_frame :])
    return torch.cat(pieces, 1)
