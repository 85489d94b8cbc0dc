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


Table = dict[str, tuple[str, ...]]
"""The names of one module or layer: our name -> the tensors that are joined."""


def pairs(parts: tuple[str, str], layers: Mapping[str, str]) -> Table:
    """Layers with two tensors each."""
    return {f"{ours}.{part}": (f"{theirs}.{part}",) for ours, theirs in layers.items() for part in parts}


LINEAR, SNAKE = ("weight", "bias"), ("alpha", "beta")
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
"""A layer of talker or predictor."""

PROJECT = pairs(LINEAR, {"project": "talker.code_predictor.small_to_mtp_projection"})
TEXT = {"table": ("talker.model.text_embedding.weight",)} | pairs(
    LINEAR, {"inner": "talker.text_projection.linear_fc1", "out": "talker.text_projection.linear_fc2"}
)

CODEC_ATTENTION = {
    "attention.qkv.weight": QKV,
    "attention.out.weight": ("self_attn.o_proj.weight",),
    "attention_scale": ("self_attn_layer_scale.scale",),
    "mlp_scale": ("mlp_layer_scale.scale",),
}

CODEC_LAYER = CODEC_ATTENTION | {
    "attention_norm": ("input_layernorm.weight",),
    "mlp_norm": ("post_attention_layernorm.weight",),
    "gate_up.weight": GATE_UP,
    "down.weight": ("mlp.down_proj.weight",),
}

STRETCH = {"mix.scale": ("1.gamma",)} | pairs(
    LINEAR,
    {
        "rise": "0.conv",
        "mix.depthwise.conv": "1.dwconv.conv",
        "mix.norm": "1.norm",
        "mix.up": "1.pwconv1",
        "mix.down": "1.pwconv2",
    },
)
RISE = pairs(SNAKE, {"snake": "0"}) | pairs(LINEAR, {"rise.conv": "1.conv"})
UNIT = pairs(SNAKE, {"before": "act1", "after": "act2"}) | pairs(
    LINEAR, {"wide.conv": "conv1.conv", "point": "conv2.conv"}
)
"""Of a rise."""


def renamed(table: Table, ours: str = "", theirs: str = "") -> Names:
    """The names of one layer, with what stands before them here and in the checkpoint."""
    found = {f"{ours}{name}": tuple(f"{theirs}{part}" for part in parts) for name, parts in table.items()}
    return {name: One(parts[0]) if len(parts) == 1 else Join(parts) for name, parts in found.items()}


def stack_names(prefix: str, layers: int) -> Names:
    """Names of a decoder stack stored under `prefix` (".../model")."""
    table: Names = {"norm": One(f"{prefix}.norm.weight")}
    for index in range(layers):
        table |= renamed(STACK_LAYER, f"layers.{index}.", f"{prefix}.layers.{index}.")
    return table


def prefixed(prefix: str, table: Names) -> Names:
    """The table of a module inside a bundle that calls it `prefix`."""
    return {f"{prefix}.{name}": source for name, source in table.items()}


def talker_names(shape: TalkerShape) -> Names:
    """Names of a talker without experts."""
    return prefixed("stack", stack_names("talker.model", shape.stack.layers)) | {"head": One(HEAD)}


def predictor_names(shape: PredictorShape) -> Names:
    """Names of the predictor."""
    heads = Stack(tuple(f"talker.code_predictor.lm_head.{g}.weight" for g in range(shape.groups - 1)))
    table = prefixed("stack", stack_names("talker.code_predictor.model", shape.stack.layers)) | {"heads": heads}
    return table | renamed(PROJECT if shape.talker_hidden != shape.stack.hidden else {})


def embedder_names(groups: int) -> Names:
    """Names of the frame embedder."""
    rest = Stack(tuple(f"talker.code_predictor.model.codec_embedding.{g}.weight" for g in range(groups - 1)))
    return {"first": One("talker.model.codec_embedding.weight"), "rest": rest}


def text_names() -> Names:
    """Names of the text rows: the table of tokens and the MLP after it."""
    return renamed(TEXT)


def upsampling_names(shape: UpsamplingShape, prefix: str) -> Names:
    """Names of the part that both codecs share: transformer layers, stretches, rises and the output."""
    names: Names = {"transformer.norm": One(f"{prefix}pre_transformer.norm.weight")}
    for i in range(shape.transformer.layers):
        names |= renamed(CODEC_LAYER, f"transformer.layers.{i}.", f"{prefix}pre_transformer.layers.{i}.")
    for i in range(len(shape.stretches)):
        names |= renamed(STRETCH, f"stretches.{i}.", f"{prefix}upsample.{i}.")
    for i in range(len(shape.rises)):
        block = f"{prefix}decoder.{i + 1}.block."
        names |= renamed(RISE, f"rises.{i}.", block)
        for j in range(len(shape.dilations)):
            names |= renamed(UNIT, f"rises.{i}.units.{j}.", f"{block}{j + 2}.")
    last = len(shape.rises) + 1
    ends = pairs(LINEAR, {"widen.conv": "0.conv", "closing.conv": f"{last + 1}.conv"})
    return names | renamed(ends | pairs(SNAKE, {"snake": f"{last}"}), "", f"{prefix}decoder.")


def conv_names(ours: str, theirs: str) -> Names:
    return renamed(pairs(LINEAR, {ours: theirs}))


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
