"""The codec after its stage: ordinary modules, from a checkpoint of the stage or from an exported folder."""

from __future__ import annotations

from pathlib import Path

import torch

from omnitts_cli.errors import ModelError
from omnitts_cli.families.qwen3_tts.names.codec import decoder_names, encoder_names
from omnitts_cli.training import parts
from omnitts_cli.training.quantise import LearningQuantiser
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.shapes import Codec, build_codec
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill

STEM = "codec"


def settled_codec(recipe: Recipe, folder: Path) -> Codec:
    """The codec that the codec stage left in `folder`, or the exported one that lies there."""
    if tensors := parts.load(folder, STEM):
        codec = build_codec(recipe.codec)
        quantiser = LearningQuantiser(recipe.codec.groups, recipe.codec.codes, recipe.codec.book_width)
        for name, module in (("encoder", codec.encoder), ("decoder", codec.decoder), ("quantiser", quantiser)):
            module.load_state_dict(parts.under(name, tensors))
        quantiser.settle(codec.encoder.quantiser, codec.decoder.quantiser)
        return codec
    if (folder / "model.safetensors").exists():
        return exported_codec(recipe, folder)
    raise ModelError(f"{folder} holds no codec", hint="the codec stage comes first")


def exported_codec(recipe: Recipe, folder: Path) -> Codec:
    """A codec folder in the released layout."""
    codec, files = build_codec(recipe.codec), Checkpoint.open(folder)
    halves = (
        (codec.decoder, decoder_names(codec.decoder.shape), "encoder.*"),
        (codec.encoder, encoder_names(codec.encoder.shape), "decoder.*"),
    )
    for half, names, other in halves:
        fill(half, names, files, "cpu", torch.float32, unused=(other,))
    return codec
