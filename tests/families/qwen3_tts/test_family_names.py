"""The codec's rename tables name each tensor of the published files that counts, and none twice."""

from __future__ import annotations

import numpy as np
import torch

from omnitts_cli.families.common.names import books
from omnitts_cli.families.qwen3_tts.encoders import encoder_names
from omnitts_cli.families.qwen3_tts.family import decoder_names
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.codec_encoder import CodecEncoder
from omnitts_cli.models.shapes import DecoderShape, EncoderShape, TransformerShape
from omnitts_cli.models.sources import Names, One

RELEASED = DecoderShape(
    groups=16,
    codes=2048,
    book_width=256,
    quantised=512,
    latent=1024,
    width=1536,
    transformer=TransformerShape(hidden=512, inner=1024, layers=8, heads=16, head_dim=64),
    window=72,
    stretches=(2, 2),
    rises=(8, 5, 4, 3),
)
RELEASED_ENCODER = EncoderShape(
    groups=16,
    codes=2048,
    book_width=256,
    filters=64,
    falls=(4, 5, 6, 8),
    transformer=TransformerShape(hidden=512, inner=2048, layers=8, heads=8, head_dim=64),
)


def theirs(names: Names) -> list[str]:
    return [name for source in names.values() for name in ((source.name,) if isinstance(source, One) else source.names)]


def test_decoder_names_all_published_tensors() -> None:
    names = decoder_names(RELEASED)
    assert len(theirs(names)) == len(set(theirs(names))) == 271
    with torch.device("meta"):
        assert names.keys() == CodecDecoder(RELEASED).state_dict().keys()
    assert "decoder.decoder.4.block.4.act2.beta" in theirs(names)
    assert names["rises.3.units.2.after.beta"] == One("decoder.decoder.4.block.4.act2.beta")


def test_encoder_leaves_out_the_books_that_are_not_kept_and_the_flags() -> None:
    names = encoder_names(RELEASED_ENCODER)
    dropped, flags = 3 * 16, 16
    assert len(theirs(names)) == len(set(theirs(names))) == 225 - dropped - flags
    with torch.device("meta"):
        assert names.keys() == CodecEncoder(RELEASED_ENCODER).state_dict().keys()
    assert names["closing.conv.weight"] == One("encoder.encoder.layers.14.conv.weight")


def test_both_halves_speak_at_the_published_rate() -> None:
    assert RELEASED.samples_per_frame == RELEASED_ENCODER.samples_per_frame == 1920


def test_an_entry_is_its_sum_over_its_usage() -> None:
    sums, usage = np.float32([[2, 4], [3, 3]]), np.float32([2, 0])
    made = books(sums, usage, sums, np.ones(2, np.float32))
    np.testing.assert_allclose(made[0], [[1, 2], [3e5, 3e5]], rtol=1e-6)
    assert np.array_equal(made[1], sums) and made.dtype == np.float32
