"""Rename tables of the codec's layers, as both families store them."""

from __future__ import annotations

from omnitts_cli.models.codec_decoder import UpsamplingShape
from omnitts_cli.models.sources import Join, Names, One


def upsampling_names(shape: UpsamplingShape, prefix: str) -> Names:
    """Names of the part that both codecs share: transformer layers, stretches, rises and the output."""
    names = transformer_names(shape.transformer.layers, f"{prefix}pre_transformer")
    for i in range(len(shape.stretches)):
        names |= stretch_names(f"stretches.{i}", f"{prefix}upsample.{i}")
    shaping = f"{prefix}decoder"
    names |= conv_names("widen.conv", f"{shaping}.0.conv")
    for i in range(len(shape.rises)):
        names |= rise_names(f"rises.{i}", f"{shaping}.{i + 1}.block", len(shape.dilations))
    last = len(shape.rises) + 1
    names |= snake_names("snake", f"{shaping}.{last}")
    return names | conv_names("closing.conv", f"{shaping}.{last + 1}.conv")


def conv_names(ours: str, theirs: str) -> Names:
    return {f"{ours}.{part}": One(f"{theirs}.{part}") for part in ("weight", "bias")}


def snake_names(ours: str, theirs: str) -> Names:
    return {f"{ours}.{part}": One(f"{theirs}.{part}") for part in ("alpha", "beta")}


def attention_names(ours: str, theirs: str) -> Names:
    projections = tuple(f"{theirs}.self_attn.{part}_proj.weight" for part in "qkv")
    names: Names = {
        f"{ours}.attention.qkv.weight": Join(projections),
        f"{ours}.attention.out.weight": One(f"{theirs}.self_attn.o_proj.weight"),
        f"{ours}.attention_scale": One(f"{theirs}.self_attn_layer_scale.scale"),
        f"{ours}.mlp_scale": One(f"{theirs}.mlp_layer_scale.scale"),
    }
    return names


def transformer_names(layers: int, theirs: str) -> Names:
    names: Names = {"transformer.norm": One(f"{theirs}.norm.weight")}
    for i in range(layers):
        ours, layer = f"transformer.layers.{i}", f"{theirs}.layers.{i}"
        names |= attention_names(ours, layer)
        names |= {
            f"{ours}.attention_norm": One(f"{layer}.input_layernorm.weight"),
            f"{ours}.mlp_norm": One(f"{layer}.post_attention_layernorm.weight"),
            f"{ours}.gate_up.weight": Join((f"{layer}.mlp.gate_proj.weight", f"{layer}.mlp.up_proj.weight")),
            f"{ours}.down.weight": One(f"{layer}.mlp.down_proj.weight"),
        }
    return names


def stretch_names(ours: str, theirs: str) -> Names:
    names = conv_names(f"{ours}.rise", f"{theirs}.0.conv")
    names |= conv_names(f"{ours}.mix.depthwise.conv", f"{theirs}.1.dwconv.conv")
    names |= conv_names(f"{ours}.mix.norm", f"{theirs}.1.norm")
    names |= conv_names(f"{ours}.mix.up", f"{theirs}.1.pwconv1") | conv_names(f"{ours}.mix.down", f"{theirs}.1.pwconv2")
    names[f"{ours}.mix.scale"] = One(f"{theirs}.1.gamma")
    return names


def rise_names(ours: str, theirs: str, units: int) -> Names:
    names = snake_names(f"{ours}.snake", f"{theirs}.0") | conv_names(f"{ours}.rise.conv", f"{theirs}.1.conv")
    for i in range(units):
        unit, block = f"{ours}.units.{i}", f"{theirs}.{i + 2}"
        names |= snake_names(f"{unit}.before", f"{block}.act1") | snake_names(f"{unit}.after", f"{block}.act2")
        names |= conv_names(f"{unit}.wide.conv", f"{block}.conv1.conv") | conv_names(
            f"{unit}.point", f"{block}.conv2.conv"
        )
    return names
