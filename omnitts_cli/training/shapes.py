"""From the recipe's sizes to the shapes of the model's own modules, and the modules themselves."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from omnitts_cli.models.codec_decoder import CodecDecoder, Stretch
from omnitts_cli.models.codec_encoder import CodecEncoder
from omnitts_cli.models.shapes import DecoderShape, EncoderShape, TransformerShape
from omnitts_cli.training.recipe import CodecSizes

FRESH_SCALE = 0.3
"""Initial scale of each branch of the codec. The published 0.01 is for networks trained forty times as long."""


@dataclass(frozen=True)
class TinyCodec:
    encoder: CodecEncoder
    decoder: CodecDecoder


def encoder_shape(sizes: CodecSizes) -> EncoderShape:
    # no transformer: convolutions span enough for 80 ms, and treat clips of any length alike
    encoder_transformer = TransformerShape(
        hidden=sizes.encoder_width, inner=4 * sizes.encoder_width, layers=0, heads=2, head_dim=64
    )
    return EncoderShape(
        groups=sizes.groups,
        codes=sizes.codes,
        book_width=sizes.book_width,
        filters=sizes.filters,
        falls=sizes.falls,
        transformer=encoder_transformer,
        dilations=sizes.dilations,
        unit_kernel=sizes.unit_kernel,
    )


def decoder_shape(sizes: CodecSizes) -> DecoderShape:
    width = sizes.transformer_width
    assert sizes.quantised == 2 * sizes.book_width  # as readers of the released format expect
    speaking = TransformerShape(
        hidden=width,
        inner=sizes.transformer_inner,
        layers=sizes.transformer_layers,
        heads=sizes.heads,
        head_dim=width // sizes.heads,
        scale=FRESH_SCALE,
    )
    return DecoderShape(
        groups=sizes.groups,
        codes=sizes.codes,
        book_width=sizes.book_width,
        quantised=sizes.quantised,
        latent=sizes.latent,
        width=sizes.decoder_width,
        transformer=speaking,
        window=sizes.window,
        stretches=sizes.stretches,
        rises=sizes.rises,
    )


def build_codec(sizes: CodecSizes) -> TinyCodec:
    decoder = CodecDecoder(decoder_shape(sizes))
    for stretch in decoder.stretches:
        assert isinstance(stretch, Stretch)
        nn.init.constant_(stretch.mix.scale, FRESH_SCALE)
    return TinyCodec(CodecEncoder(encoder_shape(sizes)), decoder)
