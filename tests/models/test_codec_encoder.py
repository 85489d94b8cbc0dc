"""The encoder: a long clip as the official package encodes it, and other sizes. test_cloner.py has official codes."""

from dataclasses import replace

import torch
from golden_set import case
from tiny_models import error
from torch import Tensor

from omnitts_cli.models.codec_encoder import CodecEncoder

BOUND = 1e-5


def test_the_transformer_attends_to_a_long_clip_from_its_start(encoder: CodecEncoder) -> None:
    """14 s are more steps than the window in the published config, which the official package does not apply."""
    golden = case("codec/encode_14s").tensors
    made: list[Tensor] = []
    handle = encoder.transformer.register_forward_hook(lambda _module, _given, out: made.append(out))
    codes = encoder(golden["audio"][None])[0]
    handle.remove()
    assert error(made[0], golden["transformer"]) < BOUND
    assert torch.equal(codes, golden["codes"])


def test_other_sizes_follow_from_the_shape_and_learn(encoder: CodecEncoder) -> None:
    torch.manual_seed(0)
    shape = replace(encoder.shape, groups=3, codes=5, falls=(2, 5), last_fall=3, dilations=(1, 2))
    other = CodecEncoder(shape)
    assert shape.samples_per_frame == 30
    other.latent(torch.randn(2, 95)).square().mean().backward()
    still = [name for name, weight in other.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert all(name.startswith("quantiser.") for name in still), still
    assert other(torch.randn(2, 95)).shape == (2, 4, 3)
