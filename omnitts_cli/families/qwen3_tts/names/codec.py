"""Rename tables of the codec: both halves live in `speech_tokenizer/model.safetensors`."""

from __future__ import annotations

import torch
from torch import Tensor

from omnitts_cli.models.codec_decoder import DecoderShape
from omnitts_cli.models.codec_encoder import EncoderShape
from omnitts_cli.models.sources import Derived, Join, Names, One

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
    names: Names = {}
    for ours, theirs, count in (("leading", "rvq_first", 1), ("residual", "rvq_rest", shape.groups - 1)):
        root = f"{prefix}quantizer.{theirs}"
        codebooks = [f"{root}.vq.layers.{i}._codebook" for i in range(count)]
        names |= _books(ours, root, codebooks, "embedding_sum")
    names |= _conv("opening.conv", f"{prefix}pre_conv.conv")
    names |= _transformer(shape.transformer.layers, f"{prefix}pre_transformer")
    for i in range(len(shape.stretches)):
        names |= _stretch(f"stretches.{i}", f"{prefix}upsample.{i}")
    shaping = f"{prefix}decoder"
    names |= _conv("widen.conv", f"{shaping}.0.conv")
    for i in range(len(shape.rises)):
        names |= _rise(f"rises.{i}", f"{shaping}.{i + 1}.block", len(shape.dilations))
    last = len(shape.rises) + 1
    names |= _snake("snake", f"{shaping}.{last}")
    names |= _conv("closing.conv", f"{shaping}.{last + 1}.conv")
    return names


def encoder_names(shape: EncoderShape, prefix: str = "encoder.") -> Names:
    names: Names = {}
    for ours, theirs, count in (("leading", "semantic", 1), ("residual", "acoustic", shape.groups - 1)):
        root = f"{prefix}quantizer.{theirs}_residual_vector_quantizer"
        codebooks = [f"{root}.layers.{i}.codebook" for i in range(count)]
        names |= _books(ours, root, codebooks, "embed_sum")
    listening = f"{prefix}encoder.layers"
    names |= _conv("opening.conv", f"{listening}.0.conv")
    place = 1
    for i in range(len(shape.falls)):
        for j in range(len(shape.dilations)):
            names |= _conv(f"falls.{i}.units.{j}.wide.conv", f"{listening}.{place}.block.1.conv")
            names |= _conv(f"falls.{i}.units.{j}.point.conv", f"{listening}.{place}.block.3.conv")
            place += 1
        names |= _conv(f"falls.{i}.fall.conv", f"{listening}.{place + 1}.conv")  # after an activation
        place += 2
    names |= _conv("closing.conv", f"{listening}.{place + 1}.conv")
    for i in range(shape.transformer.layers):
        names |= _clip_layer(f"transformer.layers.{i}", f"{prefix}encoder_transformer.layers.{i}")
    names["last_fall.conv.weight"] = One(f"{prefix}downsample.conv.weight")
    return names


def _conv(ours: str, theirs: str) -> Names:
    return {f"{ours}.{part}": One(f"{theirs}.{part}") for part in ("weight", "bias")}


def _snake(ours: str, theirs: str) -> Names:
    return {f"{ours}.{part}": One(f"{theirs}.{part}") for part in ("alpha", "beta")}


def _books(ours: str, theirs: str, codebooks: list[str], sums: str) -> Names:
    pairs = tuple(f"{book}.{part}" for book in codebooks for part in (sums, "cluster_usage"))
    return {
        f"quantiser.{ours}.books": Derived(pairs, books),
        f"quantiser.{ours}.into.weight": Derived((f"{theirs}.input_proj.weight",), matrix),
        f"quantiser.{ours}.out.weight": Derived((f"{theirs}.output_proj.weight",), matrix),
    }


def _attention(ours: str, theirs: str) -> Names:
    projections = tuple(f"{theirs}.self_attn.{part}_proj.weight" for part in "qkv")
    names: Names = {
        f"{ours}.attention.qkv.weight": Join(projections),
        f"{ours}.attention.out.weight": One(f"{theirs}.self_attn.o_proj.weight"),
        f"{ours}.attention_scale": One(f"{theirs}.self_attn_layer_scale.scale"),
        f"{ours}.mlp_scale": One(f"{theirs}.mlp_layer_scale.scale"),
    }
    return names


def _transformer(layers: int, theirs: str) -> Names:
    names: Names = {"transformer.norm": One(f"{theirs}.norm.weight")}
    names |= _conv("transformer.into", f"{theirs}.input_proj") | _conv("transformer.out", f"{theirs}.output_proj")
    for i in range(layers):
        ours, layer = f"transformer.layers.{i}", f"{theirs}.layers.{i}"
        names |= _attention(ours, layer)
        names |= {
            f"{ours}.attention_norm": One(f"{layer}.input_layernorm.weight"),
            f"{ours}.mlp_norm": One(f"{layer}.post_attention_layernorm.weight"),
            f"{ours}.gate_up.weight": Join((f"{layer}.mlp.gate_proj.weight", f"{layer}.mlp.up_proj.weight")),
            f"{ours}.down.weight": One(f"{layer}.mlp.down_proj.weight"),
        }
    return names


def _clip_layer(ours: str, theirs: str) -> Names:
    names = _attention(ours, theirs)
    names |= _conv(f"{ours}.attention_norm", f"{theirs}.input_layernorm")
    names |= _conv(f"{ours}.mlp_norm", f"{theirs}.post_attention_layernorm")
    names[f"{ours}.up.weight"] = One(f"{theirs}.mlp.fc1.weight")
    names[f"{ours}.down.weight"] = One(f"{theirs}.mlp.fc2.weight")
    return names


def _stretch(ours: str, theirs: str) -> Names:
    names = _conv(f"{ours}.rise", f"{theirs}.0.conv")
    names |= _conv(f"{ours}.mix.depthwise.conv", f"{theirs}.1.dwconv.conv")
    names |= _conv(f"{ours}.mix.norm", f"{theirs}.1.norm")
    names |= _conv(f"{ours}.mix.up", f"{theirs}.1.pwconv1") | _conv(f"{ours}.mix.down", f"{theirs}.1.pwconv2")
    names[f"{ours}.mix.scale"] = One(f"{theirs}.1.gamma")
    return names


def _rise(ours: str, theirs: str, units: int) -> Names:
    names = _snake(f"{ours}.snake", f"{theirs}.0") | _conv(f"{ours}.rise.conv", f"{theirs}.1.conv")
    for i in range(units):
        unit, block = f"{ours}.units.{i}", f"{theirs}.{i + 2}"
        names |= _snake(f"{unit}.before", f"{block}.act1") | _snake(f"{unit}.after", f"{block}.act2")
        names |= _conv(f"{unit}.wide.conv", f"{block}.conv1.conv") | _conv(f"{unit}.point", f"{block}.conv2.conv")
    return names
