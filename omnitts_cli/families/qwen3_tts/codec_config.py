"""Shapes of the sound side: both halves of the codec, and the encoder that hears who speaks."""

from __future__ import annotations

from omnitts_cli.families.common.codec_config import (
    RATE,
    RATES,
    SAMPLES_PER_FRAME,
    transformer_shape,
    upsampling_fields,
)
from omnitts_cli.families.common.fields import WIDTH, Fields
from omnitts_cli.models.codec_decoder import DecoderShape
from omnitts_cli.models.codec_encoder import EncoderShape
from omnitts_cli.models.speaker import MelShape, SpeakerShape

CODEC = "qwen3_tts_tokenizer_12hz"
KERNEL, BOOKS = 64, 256
WINDOW_KEYS = 2**24  # keys of one stream


def decoder_shape(codec: Fields, groups: int, codes: int) -> DecoderShape:
    codec.word("model_type", [CODEC])
    at = codec.part("decoder_config")
    at.must_be("num_semantic_quantizers", 1)
    quantised = at.even("codebook_dim", WIDTH)
    shape = DecoderShape(
        **upsampling_fields(at, groups, codes),
        book_width=quantised // 2,
        quantised=quantised,
        latent=at.whole("latent_dim", WIDTH),
    )
    codec.agree("decode_upsample_rate", shape.samples_per_frame, "the product of the upsampling rates")
    codec.at_most("decode_upsample_rate", shape.samples_per_frame, SAMPLES_PER_FRAME)
    past = shape.transformer.layers * shape.window * shape.transformer.heads * shape.transformer.head_dim
    at.at_most("keys of the sliding_window", past, WINDOW_KEYS)
    return shape


def encoder_shape(codec: Fields, groups: int, codes: int, samples_per_frame: int) -> EncoderShape:
    at = codec.part("encoder_config")
    for key, only in _ENCODER_CHOICES.items():
        at.must_be(key, only)
    codec.agree("encoder_valid_num_quantizers", groups, "talker_config.num_code_groups")
    codec.agree("input_sample_rate", codec.whole("output_sample_rate", 192_000), "output_sample_rate")
    at.agree("codebook_size", codes, "talker_config.code_predictor_config.vocab_size")
    if (books := at.whole("num_quantizers", BOOKS)) < groups:
        raise at.problem("num_quantizers", f"{books} are fewer than the {groups} code groups")
    shape = EncoderShape(
        groups=groups,
        codes=codes,
        book_width=at.whole("codebook_dim", WIDTH),
        filters=at.whole("num_filters", WIDTH),
        falls=at.wholes("upsampling_ratios", RATE, RATES)[::-1],  # stored in the order of the way back
        transformer=transformer_shape(at, "norm_eps", least=0),  # convolutions alone are an encoder
        dilations=_dilations(at),
        kernel=at.whole("kernel_size", KERNEL),
        unit_kernel=at.whole("residual_kernel_size", KERNEL),
        closing_kernel=at.whole("last_kernel_size", KERNEL),
        squeeze=at.whole("compress", 64),
    )
    at.divides("compress", shape.squeeze, "num_filters", shape.filters)
    if shape.samples_per_frame != samples_per_frame:
        raise at.problem(
            "upsampling_ratios", f"make frames of {shape.samples_per_frame} samples, not {samples_per_frame}"
        )
    return shape


_ENCODER_CHOICES: dict[str, object] = {
    "hidden_act": "gelu",
    "attention_bias": False,
    "num_semantic_quantizers": 1,
    "audio_channels": 1,
    "pad_mode": "constant",
    "use_causal_conv": True,
    "use_conv_shortcut": False,
    "normalize": False,
}


def _dilations(at: Fields) -> tuple[int, ...]:
    growth = at.whole("dilation_growth_rate", 8)
    return tuple(growth**unit for unit in range(at.whole("num_residual_layers", 4)))


def speaker_shape(top: Fields, hidden: int, rate: int) -> SpeakerShape:
    """Published files name two values and leave the rest to these defaults.

    The vector is used as a row of the prompt, so its width is the talker's, whatever `enc_dim` says; the
    stored weights are compared with it.
    """
    at, usual = top.part("speaker_encoder_config"), SpeakerShape(hidden)
    blocks = len(usual.channels)
    shape = SpeakerShape(
        embedding=hidden,
        channels=at.wholes("enc_channels", WIDTH, blocks, usual.channels),
        kernels=at.wholes("enc_kernel_sizes", 64, blocks, usual.kernels),
        dilations=at.wholes("enc_dilations", 64, blocks, usual.dilations),
        parts=at.whole("enc_res2net_scale", 64, 2, usual.parts),
        gate=at.whole("enc_se_channels", WIDTH, 1, usual.gate),
        attention=at.whole("enc_attention_channels", WIDTH, 1, usual.attention),
        mel=MelShape(rate, bands=at.whole("mel_dim", 1024, 1, MelShape().bands), highest=rate / 2),
    )
    at.must_be("sample_rate", rate)
    if not len(shape.channels) == len(shape.kernels) == len(shape.dilations) == blocks:
        raise at.problem("enc_channels", f"with kernel sizes and dilations, must have {blocks} entries each")
    inside = shape.channels[:-1]
    if len(set(inside)) > 1:
        raise at.problem("enc_channels", f"{list(inside)} differ, but each block adds its output to its input")
    at.divides("enc_res2net_scale", shape.parts, "enc_channels", inside[0])
    return shape
