"""The last page of an Ogg file."""

from __future__ import annotations

import io

import numpy as np
import pytest

from omnitts_cli.audio.oggend import is_whole

soundfile = pytest.importorskip("soundfile")


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_a_whole_file_is_whole_and_a_part_is_not(subtype: str) -> None:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(240_000, np.float32), 24000, format="OGG", subtype=subtype)
    assert is_whole(file) and file.tell() == 0
    for share in (0.3, 0.9, 0.99):
        assert not is_whole(io.BytesIO(file.getvalue()[: int(len(file.getvalue()) * share)]))
    assert not is_whole(io.BytesIO(b""))
