"""Other kernels, the same numbers."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from omnitts_cli.training import recipe
from omnitts_cli.training.channels_last import channels_last, from_silence
from omnitts_cli.training.shapes import build_codec


def changed(half: nn.Module, how: str) -> nn.Module:
    """A copy that computes in another way. The encoder's odd widths are filled up, and that changes nothing."""
    other = deepcopy(half)
    channels_last(other, padded=how == "encoder")
    if "silence" in how:
        from_silence(other, compiled="compiled" in how)
    return other


@pytest.mark.parametrize("how", ["encoder", "decoder", "decoder from silence", "decoder from silence, compiled"])
def test_another_way_computes_the_same(how: str) -> None:
    torch.manual_seed(0)
    codec = build_codec(recipe.read(None, miniature=True).codec)
    half, run, given = (
        (codec.encoder, "latent", torch.randn(2, 4 * 1920))
        if how == "encoder"
        else (codec.decoder, "sound", torch.randn(2, 5, 16))
    )
    with torch.no_grad():
        for name, weight in half.named_parameters():
            if name.endswith(("alpha", "beta")) and "compiled" in how:
                weight.normal_(std=0.3)
    other = changed(half, how)
    with torch.compiler.set_stance("force_eager"):  # what is compiled, and not how
        made, also_made = getattr(half, run)(given), getattr(other, run)(given)
        made.square().mean().backward()
        also_made.square().mean().backward()
    assert made.shape == also_made.shape and torch.allclose(made, also_made, atol=1e-5)
    for (name, one), also in zip(half.named_parameters(), other.parameters(), strict=True):
        assert one.grad is None or torch.allclose(one.grad, also.grad, rtol=1e-3, atol=1e-4), name
        assert also.grad is not None or "silence" not in how or "quantiser" in name, name
