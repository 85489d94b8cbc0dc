"""The published checkpoint: the values of its config files that speaking needs, and what is known of its voices.

Nothing but names and the predictor's sampling is used to read a model folder; `random:omni` is built from it.
"""

from __future__ import annotations

from typing import Any

FAMILY = "qwen3_omni_moe"
NAME = "omni"
THINKER = "omni-thinker"
TOKENS = 151_676
"""Words and control tokens; the embedding table has rows for more."""

VOICES = {"ethan": "male", "chelsie": "female", "aiden": "male, American"}
DEFAULT_VOICE = "ethan"

LANGUAGES = (
    "english", "chinese", "french", "german", "russian", "italian", "spanish", "portuguese", "japanese", "korean",
)  # fmt: skip
"""What it was trained to speak. It has no word for a language: it goes by the text."""

PREDICTOR_SAMPLING: dict[str, Any] = {
    "predictor_temperature": 1.0,
    "predictor_top_k": 50,
    "predictor_top_p": 0.8,
}

_ROTATION = {
    "rope_theta": 1_000_000,
    "rope_scaling": {"interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
}

CONFIG: dict[str, Any] = {
    "model_type": FAMILY,
    "enable_audio_output": True,
    "assistant_token_id": 77_091,
    "im_start_token_id": 151_644,
    "im_end_token_id": 151_645,
    "tts_pad_token_id": 151_671,
    "tts_bos_token_id": 151_672,
    "tts_eos_token_id": 151_673,
    "thinker_config": {
        "audio_start_token_id": 151_669,
        "audio_end_token_id": 151_670,
        "audio_token_id": 151_675,
        "audio_config": {
            "d_model": 1280,
            "encoder_layers": 32,
            "encoder_attention_heads": 20,
            "encoder_ffn_dim": 5120,
            "output_dim": 2048,
            "num_mel_bins": 128,
            "downsample_hidden_size": 480,
            "n_window": 50,
            "n_window_infer": 800,
            "activation_function": "gelu",
            "scale_embedding": False,
        },
        "text_config": {
            "vocab_size": 152_064,
            "hidden_size": 2048,
            "num_hidden_layers": 48,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
            "norm_topk_prob": True,
            "rms_norm_eps": 1e-6,
            "max_position_embeddings": 65_536,
            **_ROTATION,
        },
    },
    "talker_config": {
        "num_code_groups": 16,
        "thinker_hidden_size": 2048,
        "accept_hidden_layer": 24,
        "codec_pad_id": 2148,
        "codec_bos_id": 2149,
        "codec_eos_token_id": 2150,
        "codec_nothink_id": 2155,
        "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "speaker_id": {"chelsie": 2301, "ethan": 2302, "aiden": 2303},
        "text_config": {
            "hidden_size": 1024,
            "intermediate_size": 2048,
            "moe_intermediate_size": 384,
            "shared_expert_intermediate_size": 768,
            "num_experts": 128,
            "num_experts_per_tok": 6,
            "norm_topk_prob": True,
            "num_hidden_layers": 20,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "head_dim": 128,
            "vocab_size": 3072,
            "rms_norm_eps": 1e-6,
            "max_position_embeddings": 65_536,
            **_ROTATION,
        },
        "code_predictor_config": {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 5,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 2048,
            "num_code_groups": 16,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1_000_000,
        },
    },
    "code2wav_config": {
        "codebook_size": 2048,
        "num_quantizers": 16,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "sliding_window": 72,
        "rope_theta": 10_000,
        "rms_norm_eps": 1e-5,
        "upsampling_ratios": [2, 2],
        "upsample_rates": [8, 5, 4, 3],
        "decoder_dim": 1536,
    },
}
