"""A codec of one layer a kind, small enough for Triton's interpreter."""

from __future__ import annotations

import torch

from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.shapes import DecoderShape, TransformerShape


def small_codec(quantised: int = 16, window: int = 4) -> CodecDecoder:
    shape = DecoderShape(
        groups=2,
        codes=8,
        book_width=16,
        quantised=quantised,
        latent=32,
        width=192,
        transformer=TransformerShape(32, 32, 1, 1, 32, scale=0.3),
        window=window,
        stretches=(2,),
        rises=(2, 2),
    )
    torch.manual_seed(0)
    made = CodecDecoder(shape)
    made.prepare()
    return made
