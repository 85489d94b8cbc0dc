"""Shapes of a codec, as both families write them into their config files."""

from __future__ import annotations

from typing import Any

from omnitts_cli.families.common.fields import HEADS, LAYERS, WIDTH, Fields
from omnitts_cli.families.common.stack_config import rope_theta
from omnitts_cli.models.codec_layers import TransformerShape

RATE, RATES, SAMPLES_PER_FRAME, WINDOW = 64, 8, 2**15, 4096


def transformer_shape(at: Fields, eps: str, least: int = 1, shared_width: bool = False) -> TransformerShape:
    """Shape of a codec's transformer with `least` layers or more; with `shared_width` the heads divide its width."""
    heads, hidden = at.whole("num_attention_heads", HEADS), at.whole("hidden_size", WIDTH)
    at.agree("num_key_value_heads", heads, "num_attention_heads")
    if shared_width:
        at.divides("num_attention_heads", 2 * heads, "hidden_size", hidden)
    return TransformerShape(
        hidden=hidden,
        inner=at.whole("intermediate_size", 8 * WIDTH),
        layers=at.whole("num_hidden_layers", LAYERS, least),
        heads=heads,
        head_dim=hidden // heads if shared_width else at.even("head_dim", 1024),
        eps=at.number(eps, 1e-12, 0.1),
        rope_theta=rope_theta(at),
    )


def upsampling_fields(at: Fields, groups: int, codes: int, shared_width: bool = False) -> dict[str, Any]:
    """The fields of an UpsamplingShape."""
    at.must_be("hidden_act", "silu")
    at.must_be("attention_bias", False)
    at.agree("num_quantizers", groups, "talker_config.num_code_groups")
    at.agree("codebook_size", codes, "talker_config.code_predictor_config.vocab_size")
    width, rises = at.whole("decoder_dim", WIDTH), at.wholes("upsample_rates", RATE, RATES)
    if width % 2 ** len(rises):
        raise at.problem("decoder_dim", f"{width} cannot be halved {len(rises)} times, once for each of upsample_rates")
    return {
        "groups": groups,
        "codes": codes,
        "width": width,
        "transformer": transformer_shape(at, "rms_norm_eps", shared_width=shared_width),
        "window": at.whole("sliding_window", WINDOW),
        "stretches": at.wholes("upsampling_ratios", RATE, RATES),
        "rises": rises,
    }
