"""Layers of the codec: memory and number formats. What they compute: test_codec_decoder.py, test_slot_decoder.py."""

import torch

from omnitts_cli.models.codec_layers import CausalConv, SplitQuantiser, snake


def test_tail_does_not_hold_the_chunk() -> None:
    layer = CausalConv(2, 2, 3)
    _, past = layer(torch.randn(1, 2, 5000), torch.zeros(1, 2, 2))
    assert past.untyped_storage().nbytes() == 2 * 2 * 4


def test_snake_turns_in_float32() -> None:
    """A bfloat16 phase of hundreds of radians would be rounded by whole radians."""
    x, scale = torch.tensor([[[7.03125]]], dtype=torch.bfloat16), torch.tensor([[90.7]])
    got = snake(x, scale, torch.ones(1, 1))
    wanted = 7.03125 + torch.sin(torch.tensor(7.03125 * 90.7)) ** 2
    assert got.dtype == torch.bfloat16
    assert abs(float(got) - float(wanted)) < 0.03


def test_low_precision_latents_are_compared_in_float32() -> None:
    torch.manual_seed(0)
    made, latent = SplitQuantiser(groups=5, codes=11, book_width=6, width=8), torch.randn(1, 20, 8).bfloat16()
    assert torch.equal(made.encode(latent), made.encode(latent.float()))
    assert made.decode(made.encode(latent)).dtype == torch.float32
