"""Codec of the tiny golden checkpoints."""

import pytest
from tiny_models import make_decoder, tiny_model

from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.codec_encoder import CodecEncoder


@pytest.fixture(scope="session")
def decoder() -> CodecDecoder:
    """Prepared in float32. Do not change it."""
    made = make_decoder()
    made.prepare()
    return made


@pytest.fixture(scope="session")
def encoder() -> CodecEncoder:
    return tiny_model("base").cloner._encoders()[0]  # type: ignore[union-attr]
