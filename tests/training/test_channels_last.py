"""Other kernels, the same numbers."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn

from omnitts_cli.training import recipe
from omnitts_cli.training.channels_last import channels_last, from_silence
from omnitts_cli.training.shapes import build_codec


def same_gradients(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(a.grad is None or torch.allclose(a.grad, b.grad, rtol=1e-3, atol=1e-4) for a, b in pairs)


def test_both_halves_of_the_codec_compute_the_same() -> None:
    """The encoder's odd widths are filled up, and that changes nothing."""
    torch.manual_seed(0)
    codec = build_codec(recipe.read(None, miniature=True).codec)
    sound, latent = torch.randn(2, 4 * 1920), torch.randn(2, 4, 16)
    for half, run, given in ((codec.encoder, "latent", sound), (codec.decoder, "sound", latent)):
        other = deepcopy(half)
        channels_last(other, padded=half is codec.encoder)
        made, also_made = getattr(half, run)(given), getattr(other, run)(given)
        assert made.shape == also_made.shape and torch.allclose(made, also_made, atol=1e-5)
        made.square().mean().backward()
        also_made.square().mean().backward()
        assert same_gradients(half, other)


def test_a_decoder_from_silence_computes_the_same() -> None:
    torch.manual_seed(0)
    decoder = build_codec(recipe.read(None, miniature=True).codec).decoder
    other, latent = deepcopy(decoder), torch.randn(2, 5, 16)
    channels_last(other)
    from_silence(other, compiled=False)
    made, also_made = decoder.sound(latent), other.sound(latent)
    assert made.shape == also_made.shape and torch.allclose(made, also_made, atol=1e-5)
    made.square().mean().backward()
    also_made.square().mean().backward()
    assert same_gradients(decoder, other)
    assert all(weight.grad is not None for name, weight in other.named_parameters() if "quantiser" not in name)


def test_a_snake_of_rows_computes_the_same() -> None:
    decoder = build_codec(recipe.read(None, miniature=True).codec).decoder
    with torch.no_grad():
        for name, weight in decoder.named_parameters():
            if name.endswith(("alpha", "beta")):
                weight.normal_(std=0.3)
    other, latent = deepcopy(decoder), torch.randn(2, 5, 16)
    channels_last(other)
    from_silence(other, compiled=True)
    with torch.compiler.set_stance("force_eager"):  # what is compiled, and not how
        made, also_made = decoder.sound(latent), other.sound(latent)
        made.square().mean().backward()
        also_made.square().mean().backward()
    assert made.shape == also_made.shape and torch.allclose(made, also_made, atol=1e-5)
    assert same_gradients(decoder, other)
