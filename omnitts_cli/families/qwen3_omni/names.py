"""Rename tables: from our parameters to the tensors of the published checkpoint. Predictor and frame embedder are
stored as in `families/common/parts.py`.
"""

from omnitts_cli.families.common import names as common
from omnitts_cli.families.common.names import HEAD, prefixed, stack_names, upsampling_names
from omnitts_cli.models.shapes import Code2WavShape, ExpertShape, TalkerShape
from omnitts_cli.models.sources import Join, Names, One

BESIDE_LANGUAGE = ("thinker.*", "code2wav.*", "talker.hidden_projection.*")
"""The rest of the language side's files: the thinker, the codec, and the way from one to the other's states."""
BESIDE_CODEC = ("thinker.*", "talker.*")
"""What else is in the codec's files."""


def talker_names(shape: TalkerShape) -> Names:
    assert shape.stack.experts is not None
    stack = expert_stack_names("talker.model", shape.stack.layers, shape.stack.experts)
    return prefixed("stack", stack) | {"head": One(HEAD)}


def expert_stack_names(theirs: str, layers: int, shape: ExpertShape) -> Names:
    """A decoder stack stored under `theirs` (".../model"), with experts in every layer."""
    stack = stack_names(theirs, layers)
    for index in range(layers):
        del stack[f"layers.{index}.gate_up"], stack[f"layers.{index}.down"]
        stack |= prefixed(f"layers.{index}.experts", expert_names(f"{theirs}.layers.{index}.mlp", shape))
    return stack


def expert_names(theirs: str, shape: ExpertShape) -> Names:
    """A block of experts stored under `theirs` (".../mlp"), each expert's matrices by themselves."""
    every = [f"{theirs}.experts.{index}" for index in range(shape.count)]
    table: Names = {
        "router": One(f"{theirs}.gate.weight"),
        "gate_up": Join(tuple(f"{one}.{part}_proj.weight" for one in every for part in ("gate", "up"))),
        "down": Join(tuple(f"{one}.down_proj.weight" for one in every)),
    }
    if shape.shared:
        both = tuple(f"{theirs}.shared_expert.{part}_proj.weight" for part in ("gate", "up"))
        table |= {
            "shared_gate": One(f"{theirs}.shared_expert_gate.weight"),
            "shared_gate_up": Join(both),
            "shared_down": One(f"{theirs}.shared_expert.down_proj.weight"),
        }
    return table


def text_names() -> Names:
    return common.text_names() | {"table": One("thinker.model.embed_tokens.weight")}


def code2wav_names(shape: Code2WavShape) -> Names:
    """Names of the codec."""
    return {"table": One("code2wav.code_embedding.weight")} | upsampling_names(shape, "code2wav.")
