"""The published checkpoints: their names, every value of their config files, and what is known of their voices.

Nothing here is used to read a model folder; `random:` models are built from it, and messages name it.
"""

from __future__ import annotations

from typing import Any

KINDS = {"custom_voice": "named", "base": "cloned", "voice_design": "designed"}
"""The published word for what a checkpoint can do -> the kind of voice that it speaks."""

VARIANTS = {"customvoice": "custom_voice", "base": "base", "voicedesign": "voice_design"}
SIZES = {"0.6b": "0b6", "1.7b": "1b7"}
NAMES = ("0.6b-customvoice", "0.6b-base", "1.7b-customvoice", "1.7b-base", "1.7b-voicedesign")

VOICES = {
    "serena": "native language Chinese",
    "vivian": "native language Chinese",
    "uncle_fu": "native language Chinese",
    "ryan": "native language English",
    "aiden": "native language English",
    "ono_anna": "native language Japanese",
    "sohee": "native language Korean",
    "eric": "native language Chinese, Sichuan dialect",
    "dylan": "native language Chinese, Beijing dialect",
}

_SPEAKERS = {
    "serena": 3066,
    "vivian": 3065,
    "uncle_fu": 3010,
    "ryan": 3061,
    "aiden": 2861,
    "ono_anna": 2873,
    "sohee": 2864,
    "eric": 2875,
    "dylan": 2878,
}
_DIALECTS = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}
LANGUAGES = {
    "chinese": 2055,
    "english": 2050,
    "german": 2053,
    "italian": 2070,
    "portuguese": 2071,
    "spanish": 2054,
    "japanese": 2058,
    "korean": 2064,
    "french": 2061,
    "russian": 2069,
}
_DIALECT_LANGUAGES = {"beijing_dialect": 2074, "sichuan_dialect": 2062}


def model_config(name: str) -> dict[str, Any]:
    """config.json of one of NAMES."""
    size, variant = name.split("-")
    kind, wide = VARIANTS[variant], size == "1.7b"
    config: dict[str, Any] = {
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": SIZES[size],
        "tts_model_type": kind,
        "assistant_token_id": 77091,
        "im_start_token_id": 151644,
        "im_end_token_id": 151645,
        "tts_pad_token_id": 151671,
        "tts_bos_token_id": 151672,
        "tts_eos_token_id": 151673,
        "talker_config": _talker(wide, named=kind == "custom_voice"),
    }
    if kind == "base":
        config["speaker_encoder_config"] = {"enc_dim": 2048 if wide else 1024, "sample_rate": 24_000}
    return config


def _talker(wide: bool, named: bool) -> dict[str, Any]:
    return {
        "hidden_size": 2048 if wide else 1024,
        "intermediate_size": 6144 if wide else 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 3072,
        "text_vocab_size": 151_936,
        "text_hidden_size": 2048,
        "num_code_groups": 16,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000,
        "rope_scaling": {"interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
        "max_position_embeddings": 32_768,
        "codec_pad_id": 2148,
        "codec_bos_id": 2149,
        "codec_eos_token_id": 2150,
        "codec_think_id": 2154,
        "codec_nothink_id": 2155,
        "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "codec_language_id": LANGUAGES | (_DIALECT_LANGUAGES if named else {}),
        "spk_id": _SPEAKERS if named else {},
        "spk_is_dialect": {name: _DIALECTS.get(name, False) for name in _SPEAKERS} if named else {},
        "code_predictor_config": {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 5,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 2048,
            "num_code_groups": 16,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 1_000_000,
        },
    }


CODEC_CONFIG: dict[str, Any] = {
    "model_type": "qwen3_tts_tokenizer_12hz",
    "encoder_valid_num_quantizers": 16,
    "input_sample_rate": 24_000,
    "output_sample_rate": 24_000,
    "decode_upsample_rate": 1920,
    "encode_downsample_rate": 1920,
    "decoder_config": {
        "codebook_dim": 512,
        "codebook_size": 2048,
        "num_quantizers": 16,
        "num_semantic_quantizers": 1,
        "latent_dim": 1024,
        "decoder_dim": 1536,
        "upsampling_ratios": [2, 2],
        "upsample_rates": [8, 5, 4, 3],
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 64,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000,
        "sliding_window": 72,
        "max_position_embeddings": 8000,
    },
    "encoder_config": {
        "num_filters": 64,
        "upsampling_ratios": [8, 6, 5, 4],
        "kernel_size": 7,
        "last_kernel_size": 3,
        "residual_kernel_size": 3,
        "num_residual_layers": 1,
        "compress": 2,
        "dilation_growth_rate": 2,
        "hidden_size": 512,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "intermediate_size": 2048,
        "hidden_act": "gelu",
        "norm_eps": 1e-5,
        "rope_theta": 10_000,
        "num_quantizers": 32,
        "num_semantic_quantizers": 1,
        "codebook_size": 2048,
        "codebook_dim": 256,
    },
}
