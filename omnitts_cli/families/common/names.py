"""Shared by the families: the names under which values are stored.

A rename table leads from our parameters to the tensors of a published checkpoint. Each function of names returns
those of one module's own parameters; the caller that combines modules adds a prefix. Nothing is assumed of a size.
Does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from omnitts_cli.models.shapes import PredictorShape, TalkerShape, UpsamplingShape
from omnitts_cli.models.sources import Derived, Join, Names, One, Stack

HEAD = "talker.codec_head.weight"
"""A large tensor of the language side, whose dtype is that of all of them."""


QKV = ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight")


GATE_UP = ("mlp.gate_proj.weight", "mlp.up_proj.weight")


STACK_LAYER = {
    "input_norm": ("input_layernorm.weight",),
    "qkv": QKV,
    "q_norm": ("self_attn.q_norm.weight",),
    "k_norm": ("self_attn.k_norm.weight",),
    "out": ("self_attn.o_proj.weight",),
    "mlp_norm": ("post_attention_layernorm.weight",),
    "gate_up": GATE_UP,
    "down": ("mlp.down_proj.weight",),
}
"""For a layer of talker or predictor: our name -> the tensors that are joined."""


CODEC_ATTENTION = {
    "attention.qkv.weight": QKV,
    "attention.out.weight": ("self_attn.o_proj.weight",),
    "attention_scale": ("self_attn_layer_scale.scale",),
    "mlp_scale": ("mlp_layer_scale.scale",),
}


CODEC_LAYER = {
    "attention_norm": ("input_layernorm.weight",),
    "mlp_norm": ("post_attention_layernorm.weight",),
    "gate_up.weight": GATE_UP,
    "down.weight": ("mlp.down_proj.weight",),
}


STRETCH = {
    "rise": "0.conv",
    "mix.depthwise.conv": "1.dwconv.conv",
    "mix.norm": "1.norm",
    "mix.up": "1.pwconv1",
    "mix.down": "1.pwconv2",
}
"""Of a stretch: layers with weight and bias."""


def renamed(table: Mapping[str, tuple[str, ...]], ours: str, theirs: str) -> Names:
    """The names of one layer, which we call `ours` and the checkpoint `theirs`."""
    found = {f"{ours}.{name}": tuple(f"{theirs}.{part}" for part in parts) for name, parts in table.items()}
    return {name: One(parts[0]) if len(parts) == 1 else Join(parts) for name, parts in found.items()}


def stack_names(prefix: str, layers: int) -> Names:
    """Names of a decoder stack stored under `prefix` (".../model")."""
    table: Names = {"norm": One(f"{prefix}.norm.weight")}
    for index in range(layers):
        table |= renamed(STACK_LAYER, f"layers.{index}", f"{prefix}.layers.{index}")
    return table


def prefixed(prefix: str, table: Names) -> Names:
    """The table of a module inside a bundle that calls it `prefix`."""
    return {f"{prefix}.{name}": source for name, source in table.items()}


def talker_names(shape: TalkerShape) -> Names:
    """Names of a talker without experts."""
    return prefixed("stack", stack_names("talker.model", shape.stack.layers)) | {"head": One(HEAD)}


def predictor_names(shape: PredictorShape) -> Names:
    """Names of the predictor."""
    theirs = "talker.code_predictor"
    table = prefixed("stack", stack_names(f"{theirs}.model", shape.stack.layers))
    table["heads"] = Stack(tuple(f"{theirs}.lm_head.{g}.weight" for g in range(shape.groups - 1)))
    if shape.talker_hidden != shape.stack.hidden:
        table["project.weight"] = One(f"{theirs}.small_to_mtp_projection.weight")
        table["project.bias"] = One(f"{theirs}.small_to_mtp_projection.bias")
    return table


def embedder_names(groups: int) -> Names:
    """Names of the frame embedder."""
    return {
        "first": One("talker.model.codec_embedding.weight"),
        "rest": Stack(tuple(f"talker.code_predictor.model.codec_embedding.{g}.weight" for g in range(groups - 1))),
    }


def text_names() -> Names:
    """Names of the text rows: the table of tokens and the MLP after it."""
    names: Names = {"table": One("talker.model.text_embedding.weight")}
    for ours, theirs in (("inner", "linear_fc1"), ("out", "linear_fc2")):
        names |= {f"{ours}.{part}": One(f"talker.text_projection.{theirs}.{part}") for part in ("weight", "bias")}
    return names


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
    return renamed(CODEC_ATTENTION, ours, theirs)


def transformer_names(layers: int, theirs: str) -> Names:
    names: Names = {"transformer.norm": One(f"{theirs}.norm.weight")}
    for i in range(layers):
        names |= renamed(CODEC_ATTENTION | CODEC_LAYER, f"transformer.layers.{i}", f"{theirs}.layers.{i}")
    return names


def stretch_names(ours: str, theirs: str) -> Names:
    names: Names = {f"{ours}.mix.scale": One(f"{theirs}.1.gamma")}
    for name, stored in STRETCH.items():
        names |= conv_names(f"{ours}.{name}", f"{theirs}.{stored}")
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


def language_names(predictor: PredictorShape, talker: Names, text: Names) -> Names:
    """The rename table of `Language`."""
    middle = {"predictor": predictor_names(predictor), "embedder": embedder_names(predictor.groups)}
    parts = {"talker": talker, **middle, "text": text}
    return {f"{part}.{name}": source for part, table in parts.items() for name, source in table.items()}


SMALLEST_USAGE = 1e-5


def books(*pairs: np.ndarray) -> np.ndarray:
    """(sums, usage) of each book in turn -> books [n, codes, width]; a book's entry is a running mean."""
    least = np.float32(SMALLEST_USAGE)
    made = [sums / np.maximum(usage, least)[:, None] for sums, usage in zip(pairs[::2], pairs[1::2], strict=True)]
    return np.stack(made)


def matrix(kernel: np.ndarray) -> np.ndarray:
    """A convolution of width one is a matrix: [out, in, 1] -> [out, in]."""
    return kernel.squeeze(-1)


def book_names(ours: str, theirs: str, codebooks: list[str], sums: str) -> Names:
    pairs = tuple(f"{book}.{part}" for book in codebooks for part in (sums, "cluster_usage"))
    return {
        f"quantiser.{ours}.books": Derived(pairs, books),
        f"quantiser.{ours}.into.weight": Derived((f"{theirs}.input_proj.weight",), matrix),
        f"quantiser.{ours}.out.weight": Derived((f"{theirs}.output_proj.weight",), matrix),
    }
