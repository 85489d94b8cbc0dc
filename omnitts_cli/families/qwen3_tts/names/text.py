"""Rename table of the text rows: the table of tokens and the MLP behind it."""

from __future__ import annotations

from omnitts_cli.models.sources import Names, One


def text_names() -> Names:
    names: Names = {"table": One("talker.model.text_embedding.weight")}
    for ours, theirs in (("inner", "linear_fc1"), ("out", "linear_fc2")):
        names |= {f"{ours}.{part}": One(f"talker.text_projection.{theirs}.{part}") for part in ("weight", "bias")}
    return names
