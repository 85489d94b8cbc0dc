"""The rename tables name each tensor of the published files that counts, and none twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.families.common.fields import Fields
from omnitts_cli.families.common.names import books
from omnitts_cli.families.qwen3_tts import released
from omnitts_cli.families.qwen3_tts.config import config_of
from omnitts_cli.families.qwen3_tts.modules import Parts, parts
from omnitts_cli.weights.arrays import sources_of


@pytest.fixture(scope="module")
def published() -> Parts:
    files = (released.model_config("0.6b-base"), released.codec_config(), {})
    return parts(config_of(*(Fields(Path("config.json"), file) for file in files)))


BOOKS, FLAGS = 3 * 16, 16
"""Unused tensors of the encoder: the books that are left out, and the flags that say whether a book is initialized."""


@pytest.mark.parametrize(
    ("part", "count", "ours", "theirs"),
    [
        ("decoder", 271, "rises.3.units.2.after.beta", "decoder.decoder.4.block.4.act2.beta"),
        ("encoder", 225 - BOOKS - FLAGS, "closing.conv.weight", "encoder.encoder.layers.14.conv.weight"),
        ("speaker", 76, "out.weight", "speaker_encoder.fc.weight"),
    ],
)
def test_all_published_tensors_are_named(published: Parts, part: str, count: int, ours: str, theirs: str) -> None:
    piece = getattr(published, part)
    named = [name for source in piece.names.values() for name in sources_of(source)]
    assert len(named) == len(set(named)) == count
    assert piece.names.keys() == piece.module.state_dict().keys()
    assert sources_of(piece.names[ours]) == (theirs,)


def test_an_entry_is_its_sum_over_its_usage() -> None:
    sums, usage = np.float32([[2, 4], [3, 3]]), np.float32([2, 0])
    made = books(sums, usage, sums, np.ones(2, np.float32))
    np.testing.assert_allclose(made[0], [[1, 2], [3e5, 3e5]], rtol=1e-6)
    assert np.array_equal(made[1], sums) and made.dtype == np.float32
