"""Shared by the families: the names under which values are stored.

A rename table leads from our parameters to the tensors of a published checkpoint. Each function of names returns
those of one module's own parameters; the caller that combines modules adds a prefix. Nothing is assumed of a size.
Does not import torch.
"""

import numpy as np

from omnitts_cli.models.shapes import TENSORS, PredictorShape, Table, TalkerShape, UpsamplingShape
from omnitts_cli.models.sources import Derived, Join, Names, One, Stack

HEAD = TENSORS["talker"]["head"][1]
"""A large tensor of the language side, whose dtype is that of all of them."""


def renamed(table: Table, ours: str = "", theirs: str = "", **places: int) -> Names:
    """The names of the rows of tensors.txt that have some, with what stands before them here and in the checkpoint.
    `places`: what is in braces there.
    """
    found = {name: [f"{theirs}{part}".format(**places) for part in parts] for name, (_, *parts) in table.items()}
    return {f"{ours}{name}": One(parts[0]) if len(parts) == 1 else Join(tuple(parts))
            for name, parts in found.items() if parts}  # fmt: skip


def stack_names(prefix: str, layers: int) -> Names:
    """Names of a decoder stack stored under `prefix` (".../model")."""
    table: Names = {"norm": One(f"{prefix}.norm.weight")}
    for index in range(layers):
        table |= renamed(TENSORS["stack layer"], f"layers.{index}.", f"{prefix}.layers.{index}.")
    return table


def prefixed(prefix: str, table: Names) -> Names:
    """The table of a module inside a bundle that calls it `prefix`."""
    return {f"{prefix}.{name}": source for name, source in table.items()}


def talker_names(shape: TalkerShape) -> Names:
    """Names of a talker without experts."""
    return prefixed("stack", stack_names("talker.model", shape.stack.layers)) | renamed(TENSORS["talker"])


def predictor_names(shape: PredictorShape) -> Names:
    """Names of the predictor."""
    heads = Stack(tuple(f"talker.code_predictor.lm_head.{g}.weight" for g in range(shape.groups - 1)))
    table = prefixed("stack", stack_names("talker.code_predictor.model", shape.stack.layers)) | {"heads": heads}
    return table | renamed(TENSORS["project"] if shape.talker_hidden != shape.stack.hidden else {})


def embedder_names(groups: int) -> Names:
    """Names of the frame embedder."""
    rest = Stack(tuple(f"talker.code_predictor.model.codec_embedding.{g}.weight" for g in range(groups - 1)))
    return renamed(TENSORS["embedder"]) | {"rest": rest}


def text_names() -> Names:
    """Names of the text rows: the table of tokens and the MLP after it."""
    return renamed(TENSORS["text"])


def upsampling_names(shape: UpsamplingShape, prefix: str) -> Names:
    """Names of the part that both codecs share: transformer layers, stretches, rises and the output."""
    last = len(shape.rises) + 1
    names = renamed(TENSORS["upsampling"], "", prefix, snake=last, closing=last + 1)
    for i in range(shape.transformer.layers):
        names |= renamed(TENSORS["codec layer"], f"transformer.layers.{i}.", f"{prefix}pre_transformer.layers.{i}.")
    for i in range(len(shape.stretches)):
        names |= renamed(TENSORS["stretch"], f"stretches.{i}.", f"{prefix}upsample.{i}.")
    for i in range(len(shape.rises)):
        block = f"{prefix}decoder.{i + 1}.block."
        names |= renamed(TENSORS["rise"], f"rises.{i}.", block)
        for j in range(len(shape.dilations)):
            names |= renamed(TENSORS["unit"], f"rises.{i}.units.{j}.", f"{block}{j + 2}.")
    return names


def conv_names(ours: str, theirs: str) -> Names:
    """Of a layer with weights and biases."""
    return {f"{ours}.{part}": One(f"{theirs}.{part}") for part in ("weight", "bias")}


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
