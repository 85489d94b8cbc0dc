"""The JSON files of the exported folder, in the keys of the released ones."""

from __future__ import annotations

from typing import Any

from omnitts_cli.models.shapes import StackShape
from omnitts_cli.text.language import LANGUAGES as NAMES
from omnitts_cli.text.model_input import TEXT_INPUTS
from omnitts_cli.training.ids import LANGUAGES, TinyTextIds, codec_ids
from omnitts_cli.training.recipe import CodecSizes, Recipe
from omnitts_cli.training.shapes import encoder_shape
from omnitts_cli.training.speech import predictor_shape, speaker_shape, talker_shape
from omnitts_cli.training.teacher import SAMPLE_RATE, SAMPLES_PER_FRAME
from omnitts_cli.training.tokens import TokenLists

SPEECH_POSITIONS = 4096  # more than five minutes of prompt and speech; never trained for, refused beyond
LONGEST_PIECE = 110  # letters: it is trained on sentences of up to nine seconds
VERSION = "4.57.3"  # of transformers, as the released files say


def model_config(recipe: Recipe, tokens: TokenLists) -> dict[str, Any]:
    text, codes = TinyTextIds.of(tokens), languages(recipe)
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": text.assistant,
        "im_start_token_id": text.start,
        "im_end_token_id": text.stop,
        "tts_pad_token_id": text.pad,
        "tts_bos_token_id": text.begin,
        "tts_eos_token_id": text.end,
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": "0b6",
        "tts_model_type": "custom_voice",
        "talker_config": _talker(recipe, tokens),
        "speaker_encoder_config": _speaker(recipe),
        "transformers_version": VERSION,
        "omnitts": {
            "kinds": ["named", "cloned", "designed"],
            "languages": [NAMES[code] for code in codes],
            # of several languages, the one that a voice was made for goes in front
            "voices": {v.name: f"English: {v.line}" if recipe.languages else v.line for v in recipe.voices},
            "style": False,
            "longest_piece": LONGEST_PIECE,
            # American phonemes, or those of each language
            "text_input": TEXT_INPUTS[1] if recipe.languages else TEXT_INPUTS[0],
        },
    }


def languages(recipe: Recipe) -> list[str]:
    """The codes of the languages that the model speaks."""
    return ["en", *(language.code for language in recipe.languages)]


def _speaker(recipe: Recipe) -> dict[str, Any]:
    shape = speaker_shape(recipe)
    return {
        "enc_dim": shape.embedding,
        "enc_channels": list(shape.channels),
        "enc_kernel_sizes": list(shape.kernels),
        "enc_dilations": list(shape.dilations),
        "enc_res2net_scale": shape.parts,
        "enc_se_channels": shape.gate,
        "enc_attention_channels": shape.attention,
        "mel_dim": shape.mel.bands,
        "sample_rate": shape.mel.sample_rate,
    }


def _talker(recipe: Recipe, tokens: TokenLists) -> dict[str, Any]:
    s, ids = recipe.speech, codec_ids(recipe)
    third = s.head_dim // 2 // 3
    return {
        "model_type": "qwen3_tts_talker",
        **_stack(talker_shape(recipe).stack),
        "max_position_embeddings": SPEECH_POSITIONS,
        "rope_scaling": {
            "interleaved": True,
            "mrope_section": [s.head_dim // 2 - 2 * third, third, third],
            "rope_type": "default",
            "type": "default",
        },
        "vocab_size": ids.vocabulary,
        "text_vocab_size": tokens.size,
        "text_hidden_size": s.text_width,
        "num_code_groups": recipe.codec.groups,
        "position_id_per_seconds": 13,
        "codec_pad_id": ids.pad,
        "codec_bos_id": ids.begin,
        "codec_eos_token_id": ids.end,
        "codec_think_id": ids.think,
        "codec_nothink_id": ids.no_think,
        "codec_think_bos_id": ids.think_begin,
        "codec_think_eos_id": ids.think_end,
        "codec_language_id": {NAMES[code]: ids.english + LANGUAGES.index(code) for code in languages(recipe)},
        "spk_id": {voice.name: ids.first_speaker + n for n, voice in enumerate(recipe.voices)},
        "spk_is_dialect": {voice.name: False for voice in recipe.voices},
        "code_predictor_config": {
            "model_type": "qwen3_tts_talker_code_predictor",
            **_stack(predictor_shape(recipe).stack),
            "layer_types": ["full_attention"] * s.predictor_layers,
            "max_position_embeddings": 65536,
            "max_window_layers": 28,
            "rope_scaling": None,
            "vocab_size": recipe.codec.codes,
            "num_code_groups": recipe.codec.groups,
        },
    }


def _stack(shape: StackShape) -> dict[str, Any]:
    return {
        "attention_bias": False,
        "attention_dropout": 0,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "initializer_range": 0.02,
        "rms_norm_eps": shape.eps,
        "rope_theta": shape.rope_theta,
        "sliding_window": None,
        "use_sliding_window": False,
        "use_cache": True,
    }


def codec_config(sizes: CodecSizes) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": sizes.groups,
        "input_sample_rate": SAMPLE_RATE,
        "output_sample_rate": SAMPLE_RATE,
        "decode_upsample_rate": SAMPLES_PER_FRAME,
        "encode_downsample_rate": SAMPLES_PER_FRAME,
        "decoder_config": _decoder(sizes),
        "encoder_config": _encoder(sizes),
        "transformers_version": VERSION,
    }


def _decoder(sizes: CodecSizes) -> dict[str, Any]:
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "latent_dim": sizes.latent,
        "codebook_dim": sizes.quantised,
        "codebook_size": sizes.codes,
        "decoder_dim": sizes.decoder_width,
        "hidden_act": "silu",
        "hidden_size": sizes.transformer_width,
        "intermediate_size": sizes.transformer_inner,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "head_dim": sizes.transformer_width // sizes.heads,
        "num_attention_heads": sizes.heads,
        "num_hidden_layers": sizes.transformer_layers,
        "num_key_value_heads": sizes.heads,
        "num_quantizers": sizes.groups,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000,
        "semantic_codebook_size": sizes.codes,
        "sliding_window": sizes.window,
        "upsample_rates": list(sizes.rises),
        "upsampling_ratios": list(sizes.stretches),
        "vector_quantization_hidden_dimension": sizes.quantised,
    }


def _encoder(sizes: CodecSizes) -> dict[str, Any]:
    shape = encoder_shape(sizes)
    growth = shape.dilations[1] // shape.dilations[0] if len(shape.dilations) > 1 else 2
    return {
        "_frame_rate": SAMPLE_RATE / SAMPLES_PER_FRAME,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "audio_channels": 1,
        "codebook_dim": sizes.book_width,
        "codebook_size": sizes.codes,
        "compress": shape.squeeze,
        "dilation_growth_rate": growth,
        "head_dim": shape.transformer.head_dim,
        "hidden_act": "gelu",
        "hidden_size": sizes.encoder_width,
        "initializer_range": 0.02,
        "intermediate_size": shape.transformer.inner,
        "kernel_size": shape.kernel,
        "last_kernel_size": shape.closing_kernel,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "norm_eps": 1e-5,
        "normalize": False,
        "num_attention_heads": shape.transformer.heads,
        "num_filters": sizes.filters,
        "num_hidden_layers": shape.transformer.layers,
        "num_key_value_heads": shape.transformer.heads,
        "num_quantizers": sizes.groups,
        "num_residual_layers": len(shape.dilations),
        "num_semantic_quantizers": 1,
        "pad_mode": "constant",
        "residual_kernel_size": shape.unit_kernel,
        "rope_theta": 10000.0,
        "sampling_rate": SAMPLE_RATE,
        "sliding_window": 250,
        "trim_right_ratio": 1.0,
        "upsample_groups": sizes.encoder_width,
        "upsampling_ratios": list(reversed(sizes.falls)),
        "use_cache": False,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "use_streaming": False,
        "vector_quantization_hidden_dimension": sizes.book_width,
    }


def generation_config(recipe: Recipe) -> dict[str, Any]:
    drawn = recipe.sampling
    return {
        "do_sample": True,
        "repetition_penalty": drawn.repetition_penalty,
        "temperature": drawn.temperature,
        "top_p": drawn.top_p,
        "top_k": drawn.top_k,
        "subtalker_dosample": True,
        "subtalker_temperature": drawn.predictor_temperature,
        "subtalker_top_p": 1.0,
        "subtalker_top_k": drawn.predictor_top_k,
        "max_new_tokens": 1024,
    }


PREPROCESSOR = {
    "padding_side": "left",
    "padding_value": 0.0,
    "processor_class": "Qwen3TTSProcessor",
    "return_attention_mask": True,
}
CODEC_PREPROCESSOR = {
    "chunk_length_s": None,
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "overlap": None,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "sampling_rate": SAMPLE_RATE,
}
