"""The speaker encoder's rename table names each of its published tensors once."""

from __future__ import annotations

import torch

from omnitts_cli.families.qwen3_tts.encoders import speaker_names
from omnitts_cli.models.shapes import SpeakerShape
from omnitts_cli.models.sources import One
from omnitts_cli.models.speaker import SpeakerEncoder


def test_all_published_tensors() -> None:
    shape = SpeakerShape(embedding=1024)
    names = speaker_names(shape)
    assert len({source.name for source in names.values() if isinstance(source, One)}) == len(names) == 76
    with torch.device("meta"):
        weights = SpeakerEncoder(shape).state_dict()
    assert names.keys() == weights.keys()
    assert weights["out.weight"].shape == (1024, 3072, 1)
    assert weights["pool.into.weight"].shape == (128, 4608, 1)
