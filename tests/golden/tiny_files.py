"""Config and tokenizer files of the tiny checkpoints: the released layout and keys, small sizes."""

from __future__ import annotations

import json
from pathlib import Path

CODEBOOK = 64  # released: 2048
GROUPS = 16  # released: 16
TEXT_VOCAB = 640  # released: 151936 (rows >= tokenizer length, padded)
CODEC_VOCAB = CODEBOOK + 1024  # same 1024-wide control tail as the release


def codec_id(released_id: int) -> int:
    """Map a released control id (>= 2048) into the tiny codec vocabulary."""
    return released_id - 2048 + CODEBOOK


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
DIALECTS = {"beijing_dialect": 2074, "sichuan_dialect": 2062}
SPEAKERS = {
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
SPEAKER_DIALECT = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}

CORPUS = (
    "assistant assistant assistant user user user system\n"
    "the quick brown fox jumps over the lazy dog. hello world, this is a tiny test of speech.\n"
    "she sells sea shells by the sea shore; don't you think so? yes, I do think that it is true.\n"
    "你好，世界。今天的天气很好，我们一起去公园散步吧。\n"
) * 8

SPECIALS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
]


def dump_json(path: Path, obj, trailing_newline: bool = True) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(obj, ensure_ascii=False, indent=2) + ("\n" if trailing_newline else ""), encoding="utf-8"
    )


def build_tokenizer_files() -> tuple[dict, str, dict[str, int]]:
    """A byte-level BPE in the Qwen2 file format (vocab.json + merges.txt)."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
    from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        show_progress=False,
        special_tokens=[],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tok.train_from_iterator([CORPUS], trainer)
    model = json.loads(tok.to_str())["model"]
    vocab = model["vocab"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    base = len(vocab)
    assert set(vocab.values()) == set(range(base))
    ids = {t: base + i for i, t in enumerate(SPECIALS)}
    assert max(ids.values()) < TEXT_VOCAB
    return vocab, "#version: 0.2\n" + "\n".join(merges) + "\n", ids


def write_tokenizer(folder: Path, vocab: dict, merges: str, ids: dict[str, int]) -> None:
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text(merges, encoding="utf-8")
    dump_json(
        folder / "tokenizer_config.json",
        {
            "add_prefix_space": False,
            "added_tokens_decoder": {
                str(i): {
                    "content": t,
                    "lstrip": False,
                    "normalized": False,
                    "rstrip": False,
                    "single_word": False,
                    "special": True,
                }
                for t, i in ids.items()
            },
            "additional_special_tokens": [t for t in SPECIALS if t != "<|endoftext|>"],
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "eos_token": "<|im_end|>",
            "errors": "replace",
            "model_max_length": 131072,
            "pad_token": "<|endoftext|>",
            "split_special_tokens": False,
            "tokenizer_class": "Qwen2Tokenizer",
            "unk_token": None,
        },
    )


def talker_config(hidden: int, predictor_hidden: int, with_speakers: bool) -> dict:
    langs = dict(LANGUAGES)
    if with_speakers:
        langs |= DIALECTS
    return {
        "model_type": "qwen3_tts_talker",
        "attention_bias": False,
        "attention_dropout": 0,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 32768,
        "rope_theta": 1000000,
        "rope_scaling": {"interleaved": True, "mrope_section": [6, 5, 5], "rope_type": "default", "type": "default"},
        "sliding_window": None,
        "use_sliding_window": False,
        "use_cache": True,
        "vocab_size": CODEC_VOCAB,
        "text_vocab_size": TEXT_VOCAB,
        "text_hidden_size": 48,
        "num_code_groups": GROUPS,
        "position_id_per_seconds": 13,
        "codec_bos_id": codec_id(2149),
        "codec_eos_token_id": codec_id(2150),
        "codec_pad_id": codec_id(2148),
        "codec_think_id": codec_id(2154),
        "codec_nothink_id": codec_id(2155),
        "codec_think_bos_id": codec_id(2156),
        "codec_think_eos_id": codec_id(2157),
        "codec_language_id": {k: codec_id(v) for k, v in langs.items()},
        "spk_id": {k: codec_id(v) for k, v in SPEAKERS.items()} if with_speakers else {},
        "spk_is_dialect": {k: SPEAKER_DIALECT.get(k, False) for k in SPEAKERS} if with_speakers else {},
        "code_predictor_config": {
            "model_type": "qwen3_tts_talker_code_predictor",
            "attention_bias": False,
            "attention_dropout": 0,
            "hidden_act": "silu",
            "hidden_size": predictor_hidden,
            "intermediate_size": 80,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "layer_types": ["full_attention"] * 2,
            "initializer_range": 0.02,
            "rms_norm_eps": 1e-6,
            "max_position_embeddings": 65536,
            "max_window_layers": 28,
            "rope_scaling": None,
            "rope_theta": 1000000,
            "sliding_window": None,
            "use_sliding_window": False,
            "use_cache": True,
            "vocab_size": CODEBOOK,
            "num_code_groups": GROUPS,
        },
    }


def model_config(kind: str, size: str, ids: dict[str, int], assistant_id: int) -> dict:
    hidden = 64
    predictor = hidden if size == "0b6" else 48  # 0b6: no projection; 1b7: projection present
    cfg = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": assistant_id,
        "im_end_token_id": ids["<|im_end|>"],
        "im_start_token_id": ids["<|im_start|>"],
        "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
        "tts_pad_token_id": ids["<tts_pad>"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": size,
        "tts_model_type": kind,
        "talker_config": talker_config(hidden, predictor, kind == "custom_voice"),
        "transformers_version": "4.57.3",
    }
    if kind == "base":
        cfg["speaker_encoder_config"] = {
            "enc_dim": hidden,
            "sample_rate": 24000,
            # not in the released files (they use the class defaults); tiny here
            "enc_channels": [32, 32, 32, 32, 96],
            "enc_attention_channels": 16,
            "enc_se_channels": 16,
        }
    return cfg


def speech_tokenizer_config() -> dict:
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": GROUPS,
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920,
        "decoder_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "latent_dim": 24,
            "codebook_dim": 16,
            "codebook_size": CODEBOOK,
            "decoder_dim": 32,
            "hidden_act": "silu",
            "hidden_size": 16,
            "intermediate_size": 40,
            "layer_scale_initial_scale": 0.01,
            "max_position_embeddings": 8000,
            "head_dim": 8,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "num_key_value_heads": 4,
            "num_quantizers": GROUPS,
            "num_semantic_quantizers": 1,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000,
            "semantic_codebook_size": 4096,
            "sliding_window": 12,  # released: 72
            "upsample_rates": [8, 5, 4, 3],
            "upsampling_ratios": [2, 2],
            "vector_quantization_hidden_dimension": 16,
        },
        "encoder_config": {
            "_frame_rate": 12.5,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "audio_channels": 1,
            "codebook_dim": 8,
            "codebook_size": CODEBOOK,
            "compress": 2,
            "dilation_growth_rate": 2,
            "dtype": "float32",
            "head_dim": 16,
            "hidden_act": "gelu",
            "hidden_size": 32,
            "initializer_range": 0.02,
            "intermediate_size": 64,
            "kernel_size": 7,
            "last_kernel_size": 3,
            "layer_scale_initial_scale": 0.01,
            "max_position_embeddings": 8000,
            "norm_eps": 1e-5,
            "normalize": False,
            "num_attention_heads": 2,
            "num_filters": 4,
            "num_hidden_layers": 2,
            "num_key_value_heads": 2,
            "num_quantizers": 20,  # released: 32 (16 kept)
            "num_residual_layers": 1,
            "num_semantic_quantizers": 1,
            "pad_mode": "constant",
            "residual_kernel_size": 3,
            "rope_theta": 10000.0,
            "sampling_rate": 24000,
            "sliding_window": 250,
            "transformers_version": "4.57.0.dev0",
            "trim_right_ratio": 1.0,
            "upsample_groups": 32,
            "upsampling_ratios": [8, 6, 5, 4],
            "use_cache": False,
            "use_causal_conv": True,
            "use_conv_shortcut": False,
            "use_streaming": False,
            "vector_quantization_hidden_dimension": 8,
        },
        "transformers_version": "4.57.3",
    }


GENERATION = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}
