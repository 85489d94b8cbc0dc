"""The speaker encoder: its shortest clip and its mel scale. Official vectors: families/qwen3_tts/test_cloner.py."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from golden_set import case
from tiny_models import tiny_model

from omnitts_cli.errors import InputError
from omnitts_cli.models.shapes import MelShape, SpeakerShape
from omnitts_cli.models.speaker import SpeakerEncoder, hertz, mels


def speaker_encoder() -> SpeakerEncoder:
    return copy.deepcopy(tiny_model("base").cloner._encoders()[1])  # type: ignore[union-attr]


def test_the_scale_is_linear_up_to_the_knee_and_turns_back() -> None:
    assert mels(np.array([0.0, 200.0, 1000.0, 6400.0])).tolist() == pytest.approx([0.0, 3.0, 15.0, 42.0])
    ladder = np.linspace(0.0, 12_000.0, 200)
    np.testing.assert_allclose(hertz(mels(ladder)), ladder, atol=1e-8)


def test_shortest_clip() -> None:
    encoder = speaker_encoder()
    least = encoder.shape.shortest_samples
    assert least == 1280
    assert encoder.embed(torch.zeros(least)).isfinite().all()
    for samples in (0, 1, 385, least - 1):
        with pytest.raises(InputError, match=f"{samples / 24_000:.3f} s"):
            encoder.embed(torch.zeros(samples))


@pytest.mark.parametrize(
    "change", [{"dilations": (1, 2, 3, 9, 1)}, {"kernels": (15, 3, 3, 3, 1)}, {"mel": MelShape(hop=16)}]
)
def test_shortest_clip_follows_from_the_shape(change: dict[str, object]) -> None:
    small = SpeakerShape(embedding=4, channels=(8, 8, 8, 8, 8), gate=2, attention=2)
    encoder = SpeakerEncoder(replace(small, **change)).requires_grad_(False)
    least = encoder.shape.shortest_samples
    assert encoder.embed(torch.randn(least)).shape == (4,)
    with pytest.raises(InputError):
        encoder.embed(torch.randn(least - 1))


def test_bfloat16_weights() -> None:
    sound = case("base/xvector_stream").tensors["ref.0.audio"]
    exact, small = speaker_encoder().embed(sound), speaker_encoder().to(torch.bfloat16).embed(sound)
    assert small.dtype == torch.bfloat16
    assert torch.cosine_similarity(exact, small.float(), 0) > 0.999
