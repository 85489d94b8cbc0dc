"""What the books are used for."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from omnitts_cli.training import books, recipe
from omnitts_cli.training.books import usage
from omnitts_cli.training.shapes import TinyCodec, build_codec


@pytest.fixture
def codec() -> TinyCodec:
    torch.manual_seed(0)
    made = build_codec(replace(recipe.read(None, miniature=True).codec, groups=4))
    for half in (made.encoder, made.decoder):
        half.eval().requires_grad_(False)
    return made


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, 1920 * 30 + 7).astype(np.float32)


def test_all_groups_together_are_the_codecs_own_sound(codec: TinyCodec) -> None:
    sound = torch.from_numpy(noise(0))[None]
    codes = codec.encoder(sound)
    assert torch.allclose(books._of_first(codec, codes, 4), codec.decoder.embed(codes), atol=1e-5)


def test_groups_that_say_nothing_are_seen(codec: TinyCodec) -> None:
    codec.decoder.quantiser.residual.books[1:] = 0.0  # groups 2 and 3
    codec.encoder.quantiser.residual.books[0, 1:] = 1e6  # every frame takes the first entry
    leading, latent = codec.encoder.quantiser.leading, codec.encoder.latent(torch.from_numpy(noise(2))[None])
    leading.books[0] = leading.into(latent)[0, :1].repeat(32, 1) + 0.01 * torch.randn(32, 8)
    leading.books[0, :16] = leading.into(latent)[0, 5:21]
    told = usage(codec, [noise(0), noise(1)])
    assert list(told["lost"]) == ["1", "2", "4"] and told["lost"]["1"] != told["lost"]["2"] == told["lost"]["4"]
    assert told["in_use"][1] == 1 and told["in_use"][0] > 1


def test_dimensions_are_counted(codec: TinyCodec) -> None:
    assert usage(codec, [noise(0)])["dimensions"] > 1.5
    codec.encoder.quantiser.residual.into.weight[1:] = codec.encoder.quantiser.residual.into.weight[:1]
    assert usage(codec, [noise(0)])["dimensions"] == 1.0
