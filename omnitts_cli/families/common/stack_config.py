"""Shape of a decoder stack, as every family of this house writes it down. Nothing is assumed of a size."""

from __future__ import annotations

from omnitts_cli.families.common.fields import HEADS, LAYERS, WIDTH, Fields
from omnitts_cli.models.experts import ExpertShape
from omnitts_cli.models.layers import StackShape

KEYS = 2**18  # numbers kept for one position of a request


def stack_shape(at: Fields, experts: ExpertShape | None = None) -> StackShape:
    """A decoder stack, with experts in the place of its MLP where there are some.

    Its rotation is the plain one: in speech, without pictures, the talker's three axes are always equal.
    """
    at.must_be("hidden_act", "silu")
    at.must_be("attention_bias", False)
    at.must_be("use_sliding_window", False)
    at.must_be("tie_word_embeddings", False)
    shape = StackShape(
        hidden=at.whole("hidden_size", WIDTH),
        inner=0 if experts else at.whole("intermediate_size", 8 * WIDTH),
        layers=at.whole("num_hidden_layers", LAYERS),
        heads=at.whole("num_attention_heads", HEADS),
        kv_heads=at.whole("num_key_value_heads", HEADS),
        head_dim=at.even("head_dim", 1024),
        eps=at.number("rms_norm_eps", 1e-12, 0.1),
        rope_theta=rope_theta(at),
        experts=experts,
    )
    at.divides("num_key_value_heads", shape.kv_heads, "num_attention_heads", shape.heads)
    at.at_most("num_attention_heads x head_dim", shape.heads * shape.head_dim, WIDTH)
    at.at_most("keys of one position", shape.layers * shape.kv_heads * shape.head_dim, KEYS)
    return shape


def rope_theta(at: Fields) -> float:
    """In the published spelling beside the scaling, in the one of newer libraries together with it."""
    newer = at.has("rope_parameters")
    if newer or at.has("rope_scaling"):
        scaling = at.part("rope_parameters" if newer else "rope_scaling")
        scaling.must_be("rope_type", "default")
        scaling.must_be("type", "default")
    return (at.part("rope_parameters") if newer else at).number("rope_theta", 1.0, 1e12)
