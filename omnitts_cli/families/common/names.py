"""Rename tables of the language side: talker, predictor, frame embedder, text rows.

Each function returns the names of one module's own parameters; the caller that combines modules adds a prefix.
"""

from __future__ import annotations

from omnitts_cli.models.sources import Join, Names, One, Stack
from omnitts_cli.models.talker import PredictorShape, TalkerShape

HEAD = "talker.codec_head.weight"
"""A large tensor of the language side: its number format is that of them all."""


def stack_names(prefix: str, layers: int) -> Names:
    """Names of a decoder stack stored under `prefix` (".../model")."""
    table: Names = {"norm": One(f"{prefix}.norm.weight")}
    for index in range(layers):
        ours, theirs = f"layers.{index}", f"{prefix}.layers.{index}"
        table |= {
            f"{ours}.input_norm": One(f"{theirs}.input_layernorm.weight"),
            f"{ours}.qkv": Join(tuple(f"{theirs}.self_attn.{part}_proj.weight" for part in "qkv")),
            f"{ours}.q_norm": One(f"{theirs}.self_attn.q_norm.weight"),
            f"{ours}.k_norm": One(f"{theirs}.self_attn.k_norm.weight"),
            f"{ours}.out": One(f"{theirs}.self_attn.o_proj.weight"),
            f"{ours}.mlp_norm": One(f"{theirs}.post_attention_layernorm.weight"),
            f"{ours}.gate_up": Join((f"{theirs}.mlp.gate_proj.weight", f"{theirs}.mlp.up_proj.weight")),
            f"{ours}.down": One(f"{theirs}.mlp.down_proj.weight"),
        }
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
    if shape.heard != shape.stack.hidden:
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
