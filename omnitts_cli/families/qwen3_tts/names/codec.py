"""Rename tables of the codec: both halves live in `speech_tokenizer/model.safetensors`."""

from __future__ import annotations

import torch
from torch import Tensor

from omnitts_cli.families.common.codec_names import attention_names, conv_names, upsampling_names
from omnitts_cli.models.codec_decoder import DecoderShape
from omnitts_cli.models.codec_encoder import EncoderShape
from omnitts_cli.models.sources import Derived, Names, One

SMALLEST_USAGE = 1e-5


def books(*pairs: Tensor) -> Tensor:
    """(sums, usage) of each book in turn -> books [n, codes, width]; a book's entry is a running mean."""
    made = [
        sums.float() / usage.float().clamp(min=SMALLEST_USAGE)[:, None]
        for sums, usage in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    return torch.stack(made)


def matrix(kernel: Tensor) -> Tensor:
    """A convolution of width one is a matrix: [out, in, 1] -> [out, in]."""
    return kernel.float().squeeze(-1)


def decoder_names(shape: DecoderShape, prefix: str = "decoder.") -> Names:
    """Names of the decoder."""
    names: Names = {}
    for ours, theirs, count in (("leading", "rvq_first", 1), ("residual", "rvq_rest", shape.groups - 1)):
        root = f"{prefix}quantizer.{theirs}"
        codebooks = [f"{root}.vq.layers.{i}._codebook" for i in range(count)]
        names |= _books(ours, root, codebooks, "embedding_sum")
    names |= conv_names("opening.conv", f"{prefix}pre_conv.conv")
    names |= conv_names("transformer.into", f"{prefix}pre_transformer.input_proj")
    names |= conv_names("transformer.out", f"{prefix}pre_transformer.output_proj")
    return names | upsampling_names(shape, prefix)


def encoder_names(shape: EncoderShape, prefix: str = "encoder.") -> Names:
    """Names of the encoder."""
    names: Names = {}
    for ours, theirs, count in (("leading", "semantic", 1), ("residual", "acoustic", shape.groups - 1)):
        root = f"{prefix}quantizer.{theirs}_residual_vector_quantizer"
        codebooks = [f"{root}.layers.{i}.codebook" for i in range(count)]
        names |= _books(ours, root, codebooks, "embed_sum")
    listening = f"{prefix}encoder.layers"
    names |= conv_names("opening.conv", f"{listening}.0.conv")
    place = 1
    for i in range(len(shape.falls)):
        for j in range(len(shape.dilations)):
            names |= conv_names(f"falls.{i}.units.{j}.wide.conv", f"{listening}.{place}.block.1.conv")
            names |= conv_names(f"falls.{i}.units.{j}.point.conv", f"{listening}.{place}.block.3.conv")
            place += 1
        names |= conv_names(f"falls.{i}.fall.conv", f"{listening}.{place + 1}.conv")  # after an activation
        place += 2
    names |= conv_names("closing.conv", f"{listening}.{place + 1}.conv")
    for i in range(shape.transformer.layers):
        names |= _clip_layer(f"transformer.layers.{i}", f"{prefix}encoder_transformer.layers.{i}")
    names["last_fall.conv.weight"] = One(f"{prefix}downsample.conv.weight")
    return names


def _books(ours: str, theirs: str, codebooks: list[str], sums: str) -> Names:
    pairs = tuple(f"{book}.{part}" for book in codebooks for part in (sums, "cluster_usage"))
    return {
        f"quantiser.{ours}.books": Derived(pairs, books),
        f"quantiser.{ours}.into.weight": Derived((f"{theirs}.input_proj.weight",), matrix),
        f"quantiser.{ours}.out.weight": Derived((f"{theirs}.output_proj.weight",), matrix),
    }


def _clip_layer(ours: str, theirs: str) -> Names:
    names = attention_names(ours, theirs)
    names |= conv_names(f"{ours}.attention_norm", f"{theirs}.input_layernorm")
    names |= conv_names(f"{ours}.mlp_norm", f"{theirs}.post_attention_layernorm")
    names[f"{ours}.up.weight"] = One(f"{theirs}.mlp.fc1.weight")
    names[f"{ours}.down.weight"] = One(f"{theirs}.mlp.fc2.weight")
    return names
