"""The speaker encoder against the official package, block by block."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from golden_set import case
from tiny_models import error, speaker_encoder
from torch import Tensor

from omnitts_cli.errors import InputError
from omnitts_cli.models.shapes import MelShape, SpeakerShape
from omnitts_cli.models.speaker import SpeakerEncoder

BOUND = 1e-5


def test_every_block() -> None:
    golden, encoder = case("base/speaker_frontend").tensors, speaker_encoder("base")
    stages: dict[str, Tensor] = {}
    # these two modules are followed by an activation outside of them
    encoder.opening.register_forward_hook(lambda _m, _g, made: stages.update({"block.0": F.relu(made)}))
    encoder.join.register_forward_hook(lambda _m, _g, made: stages.update({"mfa": F.relu(made)}))
    encoder.pool.register_forward_hook(lambda _m, _g, made: stages.update({"asp": made[:, :, None]}))
    for i, block in enumerate(encoder.blocks):
        block.register_forward_hook(lambda _m, _g, made, name=f"block.{i + 1}": stages.update({name: made}))
    stages["embedding"] = encoder(golden["log_mel"])
    assert stages.keys() == golden.keys() - {"audio", "log_mel"}
    errors = {name: error(stages[name], golden[name]) for name in stages}
    assert max(errors.values()) < BOUND, errors
    assert error(encoder.embed(golden["audio"][0]), golden["embedding"][0]) < BOUND


def test_shortest_clip() -> None:
    encoder = speaker_encoder("base")
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
    sound = case("base/speaker_frontend").tensors["audio"][0]
    exact, small = speaker_encoder("base").embed(sound), speaker_encoder("base").to(torch.bfloat16).embed(sound)
    assert small.dtype == torch.bfloat16
    assert torch.cosine_similarity(exact, small.float(), 0) > 0.999
