"""For tests of the codec's kernels: where they run, random layers, a codec small enough for Triton's interpreter."""

import functools
import os

import hopper
import pytest
import torch
from hopper import HOPPER

from omnitts_cli.kernels.ops import Product
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.shapes import DecoderShape, TransformerShape

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
HOPPER_OR_INTERPRETER = [
    pytest.mark.gpu,
    pytest.mark.skipif(not INTERPRETED and not HOPPER, reason="needs a Hopper card or Triton's interpreter"),
]
random = functools.partial(hopper.random, device=DEVICE)


def halves(
    outputs: int, inputs: int, taps: int = 1, dilation: int = 1, activation: str = "snake", device: str = DEVICE
) -> Product:
    """A layer in float16."""
    weight = (hopper.random(outputs, taps * inputs, device=device) * (taps * inputs) ** -0.5).half()
    factors = (hopper.random(outputs, seed=seed, device=device).abs() for seed in (1, 2))
    bias = hopper.random(outputs, seed=3, device=device)
    return Product(weight, bias, taps, dilation, None, activation, *factors)


def small_codec(quantised: int = 16, window: int = 4) -> CodecDecoder:
    """A codec of one layer a kind."""
    shape = DecoderShape(
        groups=2,
        codes=8,
        book_width=16,
        quantised=quantised,
        latent=32,
        width=192,
        transformer=TransformerShape(32, 32, 1, 1, 32, scale=0.3),
        window=window,
        stretches=(2,),
        rises=(2, 2),
    )
    torch.manual_seed(0)
    made = CodecDecoder(shape)
    made.prepare()
    return made
